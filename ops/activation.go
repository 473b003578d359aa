package ops

import "github.com/optool/optool/opdef"

var activationOps = []*opdef.Entry{}
