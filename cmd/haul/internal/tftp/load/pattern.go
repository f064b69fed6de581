package load

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/haul-project/haul/internal/ownfile"
	"github.com/haul-project/haul/tftp/transfer"
)

// PatternPeriod is the number of bytes after which the test content repeats. It is a prime, so no
// block size divides it, and the content differs if a block is missing or repeated.
const PatternPeriod = 1<<20 + 7

// pattern returns one period of the test content, followed by as many bytes of the next period as
// the longest block has. So every block is a slice of it.
var pattern = sync.OnceValue(func() []byte {
	b := make([]byte, PatternPeriod+transfer.MaxBlockSize)
	for i := 0; i < PatternPeriod; i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], scramble(uint64(i)+1))
		copy(b[i:PatternPeriod], word[:])
	}
	copy(b[PatternPeriod:], b)
	return b
})

// patternAt returns the n bytes of test content at an offset. n is at most the length of the
// longest block.
func patternAt(off int64, n int) []byte {
	at := int(off % PatternPeriod)
	return pattern()[at : at+n]
}

// scramble returns a value in which each bit depends on all bits of x. It is the last step of the
// generator splitmix64.
func scramble(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Pattern returns a file of `size` bytes of haul's test content, which is the same on every machine
// and depends only on the offset.
func Pattern(size int64) *io.SectionReader { return io.NewSectionReader(patternFile{}, 0, size) }

// WriteFiles writes files of `size` bytes of test content into a directory. In name, "{}" stands
// for the number of the file, from 0.
func WriteFiles(dir, name string, count int, size int64) error {
	for i := range count {
		if err := writeFile(filepath.Join(dir, strings.ReplaceAll(name, placeholder, strconv.Itoa(i))), size); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, size int64) error {
	f, err := ownfile.Open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, Pattern(size)); err != nil {
		_ = f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}

// A patternFile is an endless file of test content.
type patternFile struct{}

func (patternFile) ReadAt(b []byte, off int64) (int, error) {
	for n := 0; n < len(b); {
		n += copy(b[n:], patternAt(off+int64(n), min(len(b)-n, transfer.MaxBlockSize)))
	}
	return len(b), nil
}

// TryReadAt fills all buffers, because the test content is in memory.
func (patternFile) TryReadAt(bufs [][]byte, off int64) (n int, err error) {
	for _, b := range bufs {
		n += copy(b, patternAt(off+int64(n), len(b)))
	}
	return n, nil
}
