package localdir

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"

	"github.com/haul-project/haul/internal/tempname"
)

// A checkpoint records how many bytes of a resumable upload are safe on the disk. It is stored in a
// file beside the upload. That file has two slots, which are written alternately, so that an
// interrupted write leaves the other slot intact.
type checkpoint struct {
	seq  uint64 // number of the checkpoint; of the two slots, the one with the higher number is valid
	safe int64  // how many bytes from the start of the temporary file are durable
	// size is the size of the temporary file, but at most `safe`. The bytes from `size` to `safe`
	// are zeros that were not written.
	size     int64
	expected int64  // Create.Size of the upload that the checkpoint is for
	inode    uint64 // inode number of the upload's file; 0 if the system has none
	source   uint64 // a hash of Create.Source: see sourceSum
	tail     uint32 // checksum of the last bytes before the offset `size`: see tailSum
}

const (
	checkpointMagic = "haulkep2"
	recordBytes     = 8 + 6*8 + 2*4 // magic, six numbers, two checksums
	// slotBytes is the distance between the slots, so large that no disk sector holds parts of
	// both.
	slotBytes = 512
	tailBytes = 64 << 10 // largest number of bytes that the checksum `tail` covers
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendTo appends m in its stored form: little endian, with a checksum at the end.
func (m checkpoint) appendTo(b []byte) []byte {
	start := len(b)
	b = append(b, checkpointMagic...)
	for _, n := range [...]uint64{m.seq, uint64(m.safe), uint64(m.size), uint64(m.expected), m.inode, m.source} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, m.tail)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parseCheckpoint decodes the stored form. It returns false if b is not a valid checkpoint.
func parseCheckpoint(b []byte) (m checkpoint, ok bool) {
	if len(b) < recordBytes || string(b[:8]) != checkpointMagic {
		return checkpoint{}, false
	}
	sum := binary.LittleEndian.Uint32(b[recordBytes-4:])
	if sum != crc32.Checksum(b[:recordBytes-4], castagnoli) {
		return checkpoint{}, false
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8+8*i:]) }
	m = checkpoint{
		seq: number(0), safe: int64(number(1)), size: int64(number(2)), expected: int64(number(3)), inode: number(4), source: number(5),
		tail: binary.LittleEndian.Uint32(b[recordBytes-8:]),
	}
	return m, m.safe >= 0 && m.size >= 0 && m.size <= m.safe && m.seq < math.MaxUint64
}

// readCheckpoint returns the newer valid checkpoint of the two slots in r, or false if neither is
// valid.
func readCheckpoint(r io.ReaderAt) (newest checkpoint, ok bool) {
	var b [slotBytes + recordBytes]byte
	n, _ := r.ReadAt(b[:], 0) // an incomplete checkpoint is recognized as invalid, so the error can be ignored
	for _, at := range [...]int{0, slotBytes} {
		m, valid := parseCheckpoint(b[min(at, n):n])
		if valid && (!ok || m.seq > newest.seq) {
			newest, ok = m, true
		}
	}
	return newest, ok
}

// tailSum returns the checksum of the last tailBytes bytes before the offset `size`, or of all
// bytes if there are fewer.
func tailSum(r io.ReaderAt, size int64) (uint32, error) {
	n := min(size, tailBytes)
	b := make([]byte, n)
	if got, err := r.ReadAt(b, size-n); got < len(b) {
		return 0, err
	}
	return crc32.Checksum(b, castagnoli), nil
}

// sourceSum returns the hash of Create.Source that a checkpoint stores.
func sourceSum(source string) uint64 {
	sum := tempname.Source(source)
	return binary.LittleEndian.Uint64(sum[:])
}
