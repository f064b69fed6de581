package treecopy

import (
	"context"

	"github.com/haul-project/haul/store"
)

// maxAnew is how often a file is begun anew whose source was replaced meanwhile.
// The last time it is read as one stream, which more replacements may not outrun.
const maxAnew = 2

// A Streamer is a [Fetcher] that can come as one stream, all of which is of the
// version that was opened, even if the file is replaced meanwhile. OneStream has
// it do so, however long that takes.
type Streamer interface {
	OneStream()
}

// replaced reports whether an error says that there is another version of the
// source by now.
func (c *copier) replaced(err error) bool {
	return err != nil && c.opts.Replaced != nil && c.ctx.Err() == nil && c.opts.Replaced(err)
}

// openVersion opens the source. If others of its versions were tried before, what
// is known of it is of those, and the last time nothing of two may mix.
func (f *file) openVersion(ctx context.Context, anew int) (store.File, error) {
	if anew == 0 {
		return f.open(ctx)
	}
	f.listed = false
	src, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	fi, err := src.Stat()
	if err != nil {
		_ = src.Close()
		return nil, err
	}
	f.info = fi
	if s, ok := src.(Streamer); ok && anew == maxAnew {
		s.OneStream()
	}
	return src, nil
}
