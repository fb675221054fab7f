SELECT * FROM @@this WHERE net(id) < 0
