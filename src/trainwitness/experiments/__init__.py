"""The papers' tables and figures, one file each: what is measured here, beside what was published."""
