package sftp

import (
	"errors"
	"io/fs"
	"runtime"
	"unicode/utf8"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/users"
)

// status answers with a STATUS, unless err is errAnswered.
func (s *session) status(err error) {
	if err == errAnswered {
		return
	}
	code, text := storewire.StatusOf(s.explain(err))
	s.out.b = wire.AppendStatus(s.out.b, s.request.ID, code, text)
}

// explain returns a more specific error where the kind of err alone says too little about the
// request.
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

// name answers with a NAME of one path, unless err is set.
func (s *session) name(path string, err error) error {
	if err != nil {
		return err
	}
	s.room(smallReply + 2*len(path))
	s.out.b = wire.AppendName(s.out.b, s.request.ID, path)
	return errAnswered
}

// attrs answers with an ATTRS, unless err is set.
func (s *session) attrs(a wire.Attrs, err error) error {
	if err != nil {
		return err
	}
	s.out.b = wire.AppendAttrs(s.out.b, s.request.ID, a)
	return errAnswered
}

// describe answers with the attributes of a file, unless err is set.
func (s *session) describe(fi fs.FileInfo, err error) error {
	var a wire.Attrs
	if err == nil {
		a, _ = storewire.AttrsOf(fi)
	}
	return s.attrs(a, err)
}

// perm returns the permission bits for a new file or directory: the requested bits, or the usual
// ones, without the bits of the umask.
func (s *session) perm(a wire.Attrs, usual fs.FileMode) fs.FileMode {
	if a.Has(wire.AttrMode) {
		usual = fs.FileMode(a.Mode.FileMode()).Perm()
	}
	return usual &^ s.conn.server.umask()
}
