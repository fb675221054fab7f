SELECT * FROM gam_report('2026-01-01')
