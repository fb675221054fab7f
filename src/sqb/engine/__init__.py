"""The warm engine: a Spark that stays between builds."""
