# Video, the GPU's counters for our kernels, and NVIDIA's checks of memory and races. Ten minutes.
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
measure "machine probe video" 4.0
KERNELS='regex:find|huffman|inverse_dct|colors|transform'
if command -v ncu > /dev/null; then # clocks are left as they are
    timeout 100 ncu --clock-control none --set basic --section WarpStateStats --section Occupancy \
        --section MemoryWorkloadAnalysis -k "$KERNELS" -c 10 --csv --log-file "$OUT/ncu.csv" \
        "$PYTHON" -m bench.gpu.one 256
    grep -E 'Duration|Achieved Occupancy|Compute .SM. Throughput|DRAM Throughput' "$OUT/ncu.csv" | cut -d, -f5,13- | head -50
fi
if command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck; do
        timeout 70 compute-sanitizer --tool $tool --print-limit 5 --log-file "$OUT/$tool.txt" "$PYTHON" -m bench.gpu.one 8
        tail -3 "$OUT/$tool.txt"
    done
fi
