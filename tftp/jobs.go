package tftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/transfer"
)

// maxText is the largest file that is sent in netascii, in bytes: the request
// may be forged, and looking through a file costs more than it does.
const maxText = 64 << 20

// maxScanners look through text files, which takes long, and must not keep
// other transfers from opening their files.
const maxScanners = 2

// scanAll works for those who scan text files.
func (srv *Server) scanAll() {
	for s := range srv.scans {
		s.Work()
		s.shard.workDone(s)
	}
}

// Work does the session's job. A panic, of a store or of Read and Write, is
// an error of this session's.
func (s *session) Work() {
	s.jobErr = nil
	defer func() {
		if p := recover(); p != nil {
			s.shard.server.crashes.Add(1)
			s.jobErr = fileio.Crashed(p)
		}
	}()
	switch s.job {
	case fileio.OpenJob:
		s.jobErr = s.open()
	case fileio.ScanJob:
		s.jobErr = s.scan()
	case fileio.FetchJob:
		s.jobErr = s.fetch.Fetch(s.reader)
	case fileio.FlushJob:
		s.jobErr = s.buffer.Flush(s.upload)
	case fileio.CommitJob:
		if s.jobErr = s.buffer.Commit(s.upload); s.jobErr == nil {
			s.published = store.PublishedBy(s.upload)
		}
		s.closeFiles() // here, as a job of its own would cost as much again as it does
	case fileio.CloseJob:
		s.closeFiles()
	}
}

// HandBack returns the session to its loop.
func (s *session) HandBack() { s.shard.workDone(s) }

// open asks the server's owner for what the request names.
func (s *session) open() error {
	srv := s.shard.server
	if srv.config.MTU != 0 {
		s.mtu = srv.config.MTU
	} else if srv.tests.mtu != nil && s.request.Offer.BlockSize > transfer.DefaultBlockSize {
		s.mtu, _ = srv.tests.mtu(s.peer.Addr()) // without an answer, the client knows best
	}
	if s.request.Write {
		return s.openUpload()
	}
	f, err := srv.find(s.ctx, &s.request)
	if err != nil {
		return err
	}
	s.file = f // and is closed even if Share panics
	s.locate(f)
	if err := s.describeFile(); err != nil || s.readWhole() {
		return err
	}
	if f, err = srv.files.Share(f); err != nil {
		s.file = nil
		return err
	}
	s.file, s.reader = f, f
	if s.request.Mode == transfer.Netascii {
		if s.size > maxText {
			return errTextTooLarge
		}
		return nil // a scan follows
	}
	s.try, _ = f.(store.TryReader)
	return nil
}

// describeFile finds out the size of the file, and its identity if it has one.
func (s *session) describeFile() error {
	if file, ok := s.file.(store.Identifier); ok {
		s.identity, _ = file.Identity()
		if s.size = s.identity.Size; s.size > 0 {
			return nil
		}
	}
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if s.size = info.Size(); s.size < 0 {
		return fmt.Errorf("file says that it has %d bytes", s.size)
	}
	return nil
}

// readWhole reads a small file and closes it, if the loop has set memory aside for it.
// If it fails, the file stays open for the loop.
func (s *session) readWhole() bool {
	if s.size > s.fetchCost || s.request.Mode == transfer.Netascii {
		return false
	}
	if !s.fetch.ReadWhole(s.file, int(s.size)) {
		return false
	}
	s.closeFiles()
	return true
}

// openUpload begins the upload, which counts as a file.
func (s *session) openUpload() (err error) {
	srv := s.shard.server
	if err := srv.files.Acquire(); err != nil {
		return err
	}
	defer func() {
		if s.upload == nil {
			srv.files.Release()
		}
	}()
	if s.upload, err = srv.create(s.ctx, &s.request); err == nil {
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
func (srv *Server) find(ctx context.Context, r *Request) (store.File, error) {
	if srv.config.Read != nil {
		f, err := srv.config.Read(ctx, r)
		if err == nil && f == nil {
			err = fs.ErrNotExist
		}
		return f, err
	}
	if srv.config.Store == nil {
		return nil, errReadsOff
	}
	name, err := store.CleanName(r.Name)
	if err != nil {
		return nil, err
	}
	return srv.config.Store.Open(ctx, name)
}

// create begins what a write request names.
func (srv *Server) create(ctx context.Context, r *Request) (store.Upload, error) {
	if r.Offer.HasSize && r.Offer.Size > srv.config.MaxUpload {
		return nil, fileio.ErrTooLarge
	}
	if srv.config.Write != nil {
		u, err := srv.config.Write(ctx, r)
		if err == nil && u == nil {
			err = errUploadsOff
		}
		return u, err
	}
	if srv.config.Store == nil || srv.config.Upload == NoUploads {
		return nil, errUploadsOff
	}
	name, err := store.CleanName(r.Name)
	if err != nil {
		return nil, err
	}
	u, err := srv.config.Store.Create(ctx, name, store.Create{Size: r.Announced(), Exclusive: srv.config.Upload == CreateUploads})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errNoDirectory, err)
	}
	return u, err
}

// scan looks through a text file, unless its session ends meanwhile.
func (s *session) scan() error {
	text, err := fileio.OpenText(s.file, s.gone.Load)
	if err != nil {
		return err
	}
	s.reader, s.size = text, text.Size()
	return nil
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
