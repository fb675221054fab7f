"""Code of people, in processes of its own: what finds their functions, and what carries one out."""
