package ops

import "github.com/optool/optool/opdef"

var createOps = []*opdef.Entry{}
