package opdef

// Drops are the arguments that say how much a call drops at random inside, each with the value by which it drops
// nothing.
var Drops = map[string]float64{"dropout_p": 0, "p_dropout": 0, "dropout": 0, "keep_prob": 1}
