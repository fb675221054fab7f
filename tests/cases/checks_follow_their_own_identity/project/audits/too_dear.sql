-- @description: nothing costs that much
SELECT id FROM @@this WHERE amount > @@most
