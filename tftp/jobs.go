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

// maxText is the size of the largest file that is sent in netascii, in bytes. It is bounded because
// a request may be forged, and scanning a file costs far more than sending a request.
const maxText = 64 << 20

// Work does the session's job, on a worker. If a store, or Read or Write, panics, only this session
// fails.
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
		s.askMTU()
		s.jobErr = s.side.openFile()
	case fileio.CloseJob:
		s.side.closeFile()
	default:
		s.jobErr = s.side.work()
	}
}

// askMTU determines the path MTU to the peer, if it is needed for the block size.
func (s *session) askMTU() {
	srv := s.shard.server
	if srv.config.MTU != 0 {
		s.mtu = srv.config.MTU
	} else if srv.tests.mtu != nil && s.request.Offer.BlockSize > transfer.DefaultBlockSize {
		s.mtu, _ = srv.tests.mtu(s.peer.Addr()) // with an unknown MTU, the client's block size is used
	}
}

// locate records the path of the file on disk, for the log.
func (s *session) locate(f any) {
	if s.shard.server.reportsEnds() {
		s.path = store.LocationOf(f).Path
	}
}

func (r *reading) work() error {
	if r.job == fileio.ScanJob {
		return r.scan()
	}
	return r.fetch.Fetch(r.reader)
}

func (r *reading) isOpen() bool { return r.file != nil }

// openFile opens the requested file. If the file is small, openFile also reads it.
func (r *reading) openFile() error {
	srv := r.shard.server
	f, err := srv.find(r.ctx, &r.request)
	if err != nil {
		return err
	}
	r.file = f // set before the call of Share, so that the file is closed even if Share panics
	r.locate(f)
	if err := r.describeFile(); err != nil || r.readWhole() {
		return err
	}
	if f, err = srv.files.Share(f); err != nil {
		r.file = nil
		return err
	}
	r.file, r.reader = f, f
	if r.request.Mode == transfer.Netascii {
		if r.length > maxText {
			return errTextTooLarge
		}
		return nil // the loop submits a scan of the file next: see ready
	}
	r.try, _ = store.As[store.TryReader](f)
	return nil
}

// describeFile determines the length of the file, and its identity if it has one.
func (r *reading) describeFile() error {
	if file, ok := store.As[store.Identifier](r.file); ok {
		r.identity, _ = file.Identity()
		if r.length = r.identity.Size; r.length > 0 {
			return nil
		}
	}
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if r.length = info.Size(); r.length < 0 {
		return fmt.Errorf("file says that it has %d bytes", r.length)
	}
	return nil
}

// readWhole reads a small file and closes it, if the loop has reserved enough memory for it.
// Otherwise it returns false, and the file stays open.
func (r *reading) readWhole() bool {
	if r.length > r.fetchCost || r.request.Mode == transfer.Netascii {
		return false
	}
	if !r.fetch.ReadWhole(r.file, int(r.length)) {
		return false
	}
	r.closeFile()
	return true
}

// scan translates a text file once, to learn the length of the translation. It gives up if the
// session ends meanwhile.
func (r *reading) scan() error {
	text, err := fileio.OpenText(r.file, r.gone.Load)
	if err != nil {
		return err
	}
	r.reader, r.length = text, text.Size()
	return nil
}

func (r *reading) closeFile() {
	file := r.file
	r.file, r.reader, r.try = nil, nil, nil
	if file != nil {
		_ = file.Close() // an error does not matter, because the file was only read
	}
}

func (w *writing) work() error {
	if w.job == fileio.FlushJob {
		return w.buffer.Flush(w.upload)
	}
	err := w.buffer.Commit(w.upload)
	w.closeFile() // closed here, because a separate CloseJob would cost as much as the closing itself
	return err
}

func (w *writing) isOpen() bool { return w.upload != nil }

// openFile begins the upload. The upload counts as an open file.
func (w *writing) openFile() (err error) {
	srv := w.shard.server
	if err := srv.files.Acquire(); err != nil {
		return err
	}
	defer func() {
		if w.upload == nil {
			srv.files.Release()
		}
	}()
	if w.upload, err = srv.create(w.ctx, &w.request); err == nil {
		w.locate(w.upload)
	}
	return err
}

func (w *writing) closeFile() {
	upload := w.upload
	w.upload = nil
	if upload != nil {
		defer w.shard.server.files.Release()
		_ = upload.Close() // discards the upload if it is not committed
	}
}

// find opens the file for a read request.
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

// create begins the upload for a write request.
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
	c := r.Create()
	c.Exclusive = srv.config.Upload == CreateUploads
	u, err := srv.config.Store.Create(ctx, name, c)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errNoDirectory, err)
	}
	return u, err
}
