# Makes in $DIR what the commands of README, docs and --help name, from the
# fixtures of the repository $REPO. TestDocumentedCommands runs them there.
cd "$DIR"
captures=$REPO/fixtures/captures
below=op_tools_results/op_capture_results

mkdir bin fixtures
ln -s "$(command -v optool)" bin/optool
cp -r "$REPO/fixtures/demo" "$REPO/fixtures/tutorial" fixtures
for copy in captures batch1 batch8; do cp -r "$REPO/fixtures/hook" $copy; done
mkdir -p step/testdata
cp -r "$REPO/step/testdata/scaled" "$REPO/step/testdata/clean" step/testdata
mkdir -p step/metric step/parallel/testdata
cp -r "$REPO/step/parallel/testdata/tensor" "$REPO/step/parallel/testdata/tensor-bias" step/parallel/testdata
cp -r "$REPO/step/metric/testdata" step/metric
mkdir -p step/pairs/testdata
cp -r "$REPO/step/pairs/testdata/precision" step/pairs/testdata
cp -r "$REPO/step/metric/testdata/train" "$REPO/step/metric/testdata/rollout" .
ls "$REPO"/devicebridge/native/dist/libdiopi_host.so >/dev/null 2>&1 &&
	cp "$REPO/devicebridge/native/dist/libdiopi_host.so" libdiopi_impl.so

# The library of docs/device.md, as the page builds it.
sed -n '/^```cpp$/,/^```$/{/^```/d;p;}' "$REPO/docs/device.md" >libadd.cpp
mkdir -p devicebridge/native
ln -s "$REPO/devicebridge/native/include" devicebridge/native/include
if command -v g++ >/dev/null; then
	sh -ec "$(sed -n 's/^\$ \(g++ \)/\1/p' "$REPO/docs/device.md")"
fi

# Captures of a few operators, one of them where an example has it, and a saved pair.
mkdir -p $below/torch.add/25021/4
for op in torch.matmul torch.nn.functional.linear torch.nn.functional.softmax; do
	cp -r "$captures/lm-f32/$below/$op" $below
done
cp -r "$captures/lm-bf16/$below/torch.nn.functional.silu" "$captures/autocompare-bf16/$below/torch.Tensor.mul" $below
cp -r "$captures"/lm-f32/$below/torch.rsqrt/*/*/* $below/torch.add/25021/4/2026-11-20-21-06-02
for side in run1 run2 a b; do
	mkdir $side
	cp -r op_tools_results $side
	cp $below/torch.add/25021/4/*/output.pth $side
done
cp $below/torch.add/25021/4/*/input.pth .

# Values by name: two float32 each, of which one may be infinite.
values() {
	header="{\"$2\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"
	printf "\\$(printf %03o ${#header})\0\0\0\0\0\0\0" >"$1"
	printf %s "$header" >>"$1"
	printf "\0\0\200\077\0\0\200\\$3" >>"$1"
}
mkdir megatron hf
values model.safetensors layers.0.weight 177
values megatron/model.safetensors decoder.layers.0.weight 077
values hf/model.safetensors model.layers.0.weight 077
echo 'decoder.* -> model.*' >names.txt

# Runs to report and to compare.
optool replay --quiet --json run.jsonl op_tools_results
cp run.jsonl before.jsonl
cp run.jsonl good.jsonl
cp run.jsonl night1.jsonl
cp run.jsonl night2.jsonl
optool report --quiet --write-known known.txt run.jsonl
optool replay --quiet --run finished op_tools_results
optool time --quiet --run_times 1 --json old.jsonl op_tools_results
cp old.jsonl new.jsonl

# DIOPI's sources, as far as they are read, and data of its suite.
mkdir -p DIOPI/impl/camb DIOPI/diopi_test/python/configs/model_config
cat >DIOPI/impl/camb/device_configs.py <<'END'
from skip import Skip
device_configs = {'relu': dict(name=['relu'], tensor_para=dict(args=[{"ins": ['input'], "dtype": [Skip(np.float16)]}]))}
END
cat >DIOPI/diopi_test/python/configs/diopi_configs.py <<'END'
diopi_configs = {}
END
cat >DIOPI/diopi_test/python/configs/model_config/resnet50_config.py <<'END'
resnet50_config = {}
END
optool conformance --quiet --mode gen_data --fname add relu
optool conformance --quiet --mode gen_case --fname relu

# Operators of a project's own; their captures are those where nothing is wrong.
cp -R "$REPO/fixtures/custom-ops" fixtures
cp fixtures/custom-ops/mylib.star .
