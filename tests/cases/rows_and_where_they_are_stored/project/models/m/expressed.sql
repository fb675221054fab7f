SELECT id, f FROM placed
