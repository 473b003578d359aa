package ops

import "github.com/optool/optool/opdef"

var convOps = []*opdef.Entry{}
