package fileio

import (
	"errors"
	"io"
	"sort"

	"github.com/haul-project/haul/tftp/internal/protocol"
)

// textPiece is how many bytes of a text file are translated at once. The index has eight bytes for
// each piece, so 2 MiB for a file of 1 GiB.
const textPiece = 4096

// A Text is a file translated to netascii. One pass over the file determines the size of the
// translation, and records where each piece begins in the translation. So any block can be read on
// its own.
type Text struct {
	file   io.ReaderAt
	starts []int64 // offset of each piece in the translation; the last element is the size

	text, ascii []byte
}

// errGivenUp says that the translation is no longer needed.
var errGivenUp = errors.New("the text is not wanted any more")

// OpenText returns the translation of f. Only one goroutine at a time may read it. OpenText gives
// up when stop, if not nil, returns true.
func OpenText(f io.ReaderAt, stop func() bool) (*Text, error) {
	t := &Text{file: f, text: make([]byte, textPiece), starts: []int64{0}}
	size := int64(0)
	for i := int64(0); ; i++ {
		if stop != nil && stop() {
			return nil, errGivenUp
		}
		n, err := f.ReadAt(t.text, i*textPiece)
		if n > 0 {
			t.ascii = protocol.AppendNetascii(t.ascii[:0], t.text[:n])
			size += int64(len(t.ascii))
			t.starts = append(t.starts, size)
		}
		switch {
		case err == io.EOF:
			return t, nil
		case err != nil:
			return nil, err
		case n != len(t.text):
			return nil, io.ErrNoProgress // a fault of the file: io.ReaderAt requires an error here
		}
	}
}

// Size returns the size of the translation.
func (t *Text) Size() int64 { return t.starts[len(t.starts)-1] }

// ReadAt reads from the translation.
func (t *Text) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		piece := sort.Search(len(t.starts), func(i int) bool { return t.starts[i] > at }) - 1
		if piece == len(t.starts)-1 {
			return n, io.EOF
		}
		got, err := t.file.ReadAt(t.text, int64(piece)*textPiece)
		switch {
		case got <= 0 && err == nil:
			return n, io.ErrNoProgress
		case got <= 0:
			return n, err
		}
		t.ascii = protocol.AppendNetascii(t.ascii[:0], t.text[:got])
		skip := at - t.starts[piece]
		if skip >= int64(len(t.ascii)) {
			return n, io.ErrUnexpectedEOF // the file has changed
		}
		n += copy(p[n:], t.ascii[skip:])
	}
	return n, nil
}
