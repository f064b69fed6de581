package tftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// maxText is the largest file that is sent in netascii, in bytes: the request
// may be forged, and looking through a file costs more than it does.
const maxText = 64 << 20

// scanAll works for those who scan text files.
func (l *Listener) scanAll() {
	for s := range l.scans {
		s.work()
		s.shard.workDone(s)
	}
}

// work does the session's job. A panic, of a store or of Read and Write, is
// an error of this session's.
func (s *session) work() {
	s.jobErr = nil
	defer func() {
		if p := recover(); p != nil {
			s.shard.server.crashes.Add(1)
			s.jobErr = crashed(p)
		}
	}()
	switch s.job {
	case openJob:
		s.jobErr = s.open()
	case scanJob:
		s.jobErr = s.scan()
	case fetchJob:
		s.jobErr = s.fetchNow()
	case flushJob:
		s.jobErr = s.buffer.flush(s.upload, s.flush.from, s.flush.to)
	case commitJob:
		if s.jobErr = s.buffer.flush(s.upload, s.flush.from, s.flush.to); s.jobErr == nil {
			s.jobErr = s.commit()
		}
	case closeJob:
		s.closeFiles()
	}
}

// handBack returns the session to its loop.
func (s *session) handBack() { s.shard.workDone(s) }

// open asks the server's owner for what the request names.
func (s *session) open() error {
	l := s.shard.server
	if l.MTU != 0 {
		s.mtu = l.MTU
	} else if l.mtu != nil && s.request.Offer.BlockSize > transfer.DefaultBlockSize {
		s.mtu, _ = l.mtu(s.peer.Addr()) // without an answer, the client knows best
	}
	if s.request.Write {
		return s.openUpload()
	}
	f, err := l.find(s.ctx, &s.request)
	if err != nil {
		return err
	}
	s.file = f // and is closed even if Share panics
	s.locate(f)
	if f, err = l.files.Share(f); err != nil {
		s.file = nil
		return err
	}
	s.file, s.reader = f, f
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if s.size = info.Size(); s.size < 0 {
		return fmt.Errorf("file says that it has %d bytes", s.size)
	}
	if s.request.Mode == transfer.Netascii {
		if s.size > maxText {
			return errTextTooLarge
		}
		return nil // a scan follows
	}
	s.try, _ = f.(store.TryReader)
	if file, ok := f.(store.Identifier); ok {
		s.identity, _ = file.Identity()
	}
	return nil
}

// openUpload begins the upload, which counts as a file.
func (s *session) openUpload() (err error) {
	l := s.shard.server
	if err := l.files.Acquire(); err != nil {
		return err
	}
	defer func() {
		if s.upload == nil {
			l.files.Release()
		}
	}()
	if s.upload, err = l.create(s.ctx, &s.request); err == nil {
		s.locate(s.upload)
	}
	return err
}

// locate notes the place of a file on the disk, for the log.
func (s *session) locate(f any) {
	if s.shard.server.reportsEnds() {
		s.path = store.LocationOf(f)
	}
}

// find opens what a read request names.
func (l *Listener) find(ctx context.Context, r *Request) (store.File, error) {
	if l.Read != nil {
		f, err := l.Read(ctx, r)
		if err == nil && f == nil {
			err = fs.ErrNotExist
		}
		return f, err
	}
	if l.Store == nil {
		return nil, errReadsOff
	}
	name, err := store.CleanName(r.Name)
	if err != nil {
		return nil, err
	}
	return l.Store.Open(ctx, name)
}

// create begins what a write request names.
func (l *Listener) create(ctx context.Context, r *Request) (store.Upload, error) {
	if r.Offer.HasSize && r.Offer.Size > l.MaxUpload {
		return nil, errTooLarge
	}
	if l.Write != nil {
		u, err := l.Write(ctx, r)
		if err == nil && u == nil {
			err = errUploadsOff
		}
		return u, err
	}
	if l.Store == nil || l.Upload == NoUploads {
		return nil, errUploadsOff
	}
	name, err := store.CleanName(r.Name)
	if err != nil {
		return nil, err
	}
	u, err := l.Store.Create(ctx, name, store.Create{Size: r.Announced(), Exclusive: l.Upload == CreateUploads})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errNoDirectory, err)
	}
	return u, err
}

// scan looks through a text file, unless its session ends meanwhile.
func (s *session) scan() error {
	text, err := openText(s.file, s.gone.Load)
	if err != nil {
		return err
	}
	s.reader, s.size = text, text.size()
	return nil
}

// fetchNow reads the bytes wanted, or at least the block that is due next. If
// that is not there, the file has shrunk.
func (s *session) fetchNow() error {
	f := &s.fetch
	if cap(f.buf) < f.want {
		f.buf = make([]byte, f.want)
	}
	var err error
	f.n, err = s.reader.ReadAt(f.buf[:f.want], f.off)
	switch {
	case f.n < 0 || f.n > f.want:
		f.n, err = 0, fmt.Errorf("file says that it read %d of %d bytes", f.n, f.want)
	case f.n >= f.need:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errChanged
	case err == nil:
		return io.ErrNoProgress // a fault of the file's: see io.ReaderAt
	}
	return err
}

func (s *session) commit() error {
	if err := s.upload.Truncate(s.flush.to); err != nil {
		return err
	}
	return s.upload.Commit()
}

// closeFiles lets go of everything that the store gave.
func (s *session) closeFiles() {
	file, upload := s.file, s.upload
	s.file, s.reader, s.try, s.upload = nil, nil, nil, nil
	if file != nil {
		_ = file.Close() // it was read, there is nothing to lose
	}
	if upload != nil {
		defer s.shard.server.files.Release()
		_ = upload.Close() // discards, unless committed
	}
}
