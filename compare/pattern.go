package compare

func (c *checker) pattern(at int) string { return "" }
