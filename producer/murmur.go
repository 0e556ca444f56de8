package producer

// murmur2 is the hash of Kafka's Java client: MurmurHash2 (Austin Appleby), 32 bits, seed 0x9747b28c. The same key finds the same partition whoever
// sends it.
func murmur2(p []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(p))
	for len(p) >= 4 {
		k := uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h *= m
		h ^= k
		p = p[4:]
	}
	switch len(p) {
	case 3:
		h ^= uint32(p[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(p[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(p[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}

// keyPartition is the Java client's choice for a key.
func keyPartition(key []byte, partitions int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % partitions
}
