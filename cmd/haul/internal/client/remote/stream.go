package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web/webclient"
)

// streamBytes is the maximum number of bytes of one read of a file.
const streamBytes = 256 << 10

// Stream writes the content of a remote file to w in order, and returns the number of bytes
// written. name is the name of w in messages. If the type of the file supports it, several requests
// are in flight at the same time. An error from writing to w is a [failure.Local].
func Stream(ctx context.Context, f store.File, w io.Writer, name string) (int64, error) {
	n, err := stream(ctx, f, w, name)
	if IsReplaced(err) {
		err = fmt.Errorf("%w; %s", err, afterReplaced(n, name))
	}
	return n, err
}

func stream(ctx context.Context, f store.File, w io.Writer, name string) (int64, error) {
	if f, ok := store.As[*sftpclient.File](f); ok {
		n, err := f.WriteTo(w)
		if transfer, ok := errors.AsType[*sftpclient.TransferError](err); ok && transfer.Local && ctx.Err() == nil {
			err = failure.Local.Errorf("write %s: %w", name, transfer.Err)
		}
		return n, asSide(err)
	}
	return StreamPart(ctx, f, w, name, 0, -1)
}

// StreamPart does the same as [Stream] for n bytes of the file from the offset off. If n is
// negative, it writes everything from off. If the file is shorter, it writes less.
func StreamPart(ctx context.Context, f store.File, w io.Writer, name string, off, n int64) (done int64, err error) {
	if n < 0 {
		n = math.MaxInt64 - off
	}
	var r io.Reader = io.NewSectionReader(f, off, n)
	if s, ok := store.As[*sftpclient.File](f); ok { // its Read requests data ahead, which its ReadAt does not
		if _, err := s.Seek(off, io.SeekStart); err != nil {
			return 0, failure.Remote.Wrap(err)
		}
		r = s
	}
	buf := make([]byte, streamBytes)
	for done < n {
		got, err := r.Read(buf[:min(int64(len(buf)), n-done)])
		if got > 0 {
			if _, err := w.Write(buf[:got]); err != nil {
				if errors.Is(err, context.Canceled) {
					return done, err
				}
				return done, failure.Local.Errorf("write %s: %w", name, err)
			}
			done += int64(got)
		}
		switch {
		case err == io.EOF:
			return done, nil
		case err != nil:
			return done, failure.Remote.Wrap(err)
		case ctx.Err() != nil:
			return done, context.Cause(ctx)
		}
	}
	return done, nil
}

// asSide marks an error as [failure.Remote], unless it is marked as [failure.Local] already.
func asSide(err error) error {
	if err == nil || errors.Is(err, failure.Local) {
		return err
	}
	return failure.Remote.Wrap(err)
}

// IsReplaced reports whether an error means that the file on the server was replaced while it was
// read. The new file may be shorter.
func IsReplaced(err error) bool {
	return errors.Is(err, webclient.ErrChanged) || errors.Is(err, store.ErrChanged) || errors.Is(err, treecopy.ErrChanged)
}

// afterReplaced returns advice for the case that a file was replaced before all of it was written
// to a stream. The rest of the new file does not fit the part that was already written. name is the
// name of the stream in messages.
func afterReplaced(sent int64, name string) string {
	if sent == 0 {
		return "nothing has gone to " + name + ": run it again"
	}
	return fmt.Sprintf("%d bytes of what it was before have gone to %s, which cannot take them back: "+
		"discard them and run it again, or fetch to a file, for which haul begins anew by itself", sent, name)
}
