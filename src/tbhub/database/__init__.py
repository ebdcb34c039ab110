"""The hub's database: tables, engine, migrations."""
