SELECT id FROM slim
