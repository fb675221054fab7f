SELECT id, status, note FROM staging.users WHERE status = 'Active'
