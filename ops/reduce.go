package ops

import "github.com/optool/optool/opdef"

var reduceOps = []*opdef.Entry{}
