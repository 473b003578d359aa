package ops

import "github.com/optool/optool/opdef"

var visionOps = []*opdef.Entry{}
