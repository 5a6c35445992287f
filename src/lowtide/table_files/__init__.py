"""Tables in files: CSV, Parquet, Arrow and JSON lines, read and written in batches."""
