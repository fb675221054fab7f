SELECT revenue FROM marts.revenue
