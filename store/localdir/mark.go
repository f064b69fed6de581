package localdir

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"

	"github.com/haul-project/haul/internal/tempname"
)

// A mark says how much of a kept upload is safe. It is stored beside it, in one
// of two places in turn, so that one that is cut short leaves the other.
type mark struct {
	seq      uint64 // of two, the one with the higher counts
	safe     int64  // bytes from the start that are durable
	size     int64  // what the file had of them; zeros that follow are a hole
	expected int64  // Create.Size
	inode    uint64 // of the file, if the system has such
	source   uint64 // a hash of Create.Source
	tail     uint32 // checksum of the last of the safe bytes that the file has
}

const (
	markMagic = "haulkep2"
	markBytes = 8 + 6*8 + 2*4 // magic, six numbers, two checksums
	markSlot  = 512           // bytes from one place to the other: no sector holds both
	markTail  = 64 << 10      // bytes that the checksum covers
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendTo appends m as it is stored: little endian, a checksum at the end.
func (m mark) appendTo(b []byte) []byte {
	start := len(b)
	b = append(b, markMagic...)
	for _, n := range [...]uint64{m.seq, uint64(m.safe), uint64(m.size), uint64(m.expected), m.inode, m.source} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, m.tail)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parseMark returns false for what is no mark.
func parseMark(b []byte) (m mark, ok bool) {
	if len(b) < markBytes || string(b[:8]) != markMagic {
		return mark{}, false
	}
	sum := binary.LittleEndian.Uint32(b[markBytes-4:])
	if sum != crc32.Checksum(b[:markBytes-4], castagnoli) {
		return mark{}, false
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8+8*i:]) }
	m = mark{
		seq: number(0), safe: int64(number(1)), size: int64(number(2)), expected: int64(number(3)), inode: number(4), source: number(5),
		tail: binary.LittleEndian.Uint32(b[markBytes-8:]),
	}
	return m, m.safe >= 0 && m.size >= 0 && m.size <= m.safe && m.seq < math.MaxUint64
}

// readMark returns the newest of the two marks in r, or false if there is none.
func readMark(r io.ReaderAt) (newest mark, ok bool) {
	var b [markSlot + markBytes]byte
	n, _ := r.ReadAt(b[:], 0) // what is missing is no mark
	for _, at := range [...]int{0, markSlot} {
		m, valid := parseMark(b[min(at, n):n])
		if valid && (!ok || m.seq > newest.seq) {
			newest, ok = m, true
		}
	}
	return newest, ok
}

// tailSum returns the checksum of the last bytes before size.
func tailSum(r io.ReaderAt, size int64) (uint32, error) {
	n := min(size, markTail)
	b := make([]byte, n)
	if got, err := r.ReadAt(b, size-n); got < len(b) {
		return 0, err
	}
	return crc32.Checksum(b, castagnoli), nil
}

// sourceSum is what a mark has of Create.Source.
func sourceSum(source string) uint64 {
	sum := tempname.Source(source)
	return binary.LittleEndian.Uint64(sum[:])
}
