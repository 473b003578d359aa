package ops

import "github.com/optool/optool/opdef"

var lossOps = []*opdef.Entry{}
