SELECT nothing AS id
