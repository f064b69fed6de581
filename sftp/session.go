package sftp

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/users"
)

// A session speaks SFTP on one channel, on a single goroutine. It answers requests in their order.
type session struct {
	stream
	request wire.Request // the current request
	begun   bool         // the client has sent INIT
	handles handleTable
	long    []byte // buffer for the long form of a name in a listing
}

func newSession(ctx context.Context, c *userConn, rw io.ReadWriter) *session {
	s := &session{stream: stream{conn: c, ctx: ctx, rw: rw}}
	s.in.reset()
	s.out.reset()
	return s
}

// enter answers with the handle of an opened file or directory. The caller has counted that handle
// with userConn.reserve.
func (s *session) enter(h *sessionHandle, flags wire.OpenFlags) {
	if h.dir == nil {
		h.transfer = &Transfer{
			Conn:   s.conn.info,
			Name:   shown(h.name),
			Path:   h.path(),
			Read:   flags&wire.OpenRead != 0,
			Write:  flags&wire.OpenWrite != 0,
			Hidden: h.upload != nil,
			Began:  time.Now(),
		}
	}
	s.handles.add(h)
	s.out.b = wire.AppendHandle(s.out.b, s.request.ID, h.key)
	if h.transfer != nil && s.conn.server.Started != nil {
		s.conn.server.Started(h.transfer)
	}
}

// release closes a handle. The argument why is nil if the client closed the handle, and otherwise
// the reason why it was left open.
func (s *session) release(h *sessionHandle, why error) error {
	s.handles.remove(h)
	defer s.conn.unreserve()
	if why != nil && h.delivered(s.flushes) {
		why = nil
	}
	return h.close(why)
}

// status answers with a STATUS for err. It does nothing if err is errAnswered.
func (s *session) status(err error) {
	if err == errAnswered {
		return
	}
	code, text := storewire.StatusOf(s.explain(err))
	s.out.b = wire.AppendStatus(s.out.b, s.request.ID, code, text)
}

// explain returns a more specific error if err alone would not tell the client why its request
// failed.
func (s *session) explain(err error) error {
	q := &s.request
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrExist):
		if s.conn.account.Access == users.UploadOnly && q.Type != wire.TypeMkdir && !errors.Is(err, storewire.ErrNotEmpty) {
			return storewire.ErrUploadOnly
		}
	case errors.Is(err, fs.ErrInvalid):
		wantsText := runtime.GOOS == "windows" || runtime.GOOS == "darwin" // other systems accept any bytes
		if wantsText && (!utf8.Valid(q.Path) || !utf8.Valid(q.NewPath)) {
			return storewire.ErrNotUTF8
		}
	}
	return err
}

// name answers with a NAME reply of one path, or with err if it is set.
func (s *session) name(path string, err error) error {
	if err != nil {
		return err
	}
	s.room(smallReply + 2*len(path))
	s.out.b = wire.AppendName(s.out.b, s.request.ID, path)
	return errAnswered
}

// attrs answers with an ATTRS reply, or with err if it is set.
func (s *session) attrs(a wire.Attrs, err error) error {
	if err != nil {
		return err
	}
	s.out.b = wire.AppendAttrs(s.out.b, s.request.ID, a)
	return errAnswered
}

// attrsOf returns the attributes of a file, or err if it is set.
func attrsOf(fi fs.FileInfo, err error) (wire.Attrs, error) {
	if err != nil {
		return wire.Attrs{}, err
	}
	a, _ := storewire.AttrsOf(fi)
	return a, nil
}
