package tftp

import (
	"context"
	"errors"
	"io"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// A job is something that may wait for a disk, and so is a worker's.
type job uint8

const (
	noJob     job = iota
	openJob       // open the file, or begin the upload
	scanJob       // find out how long a text file is in netascii
	fetchJob      // read from the file what was not in memory
	flushJob      // write what an upload has gathered
	commitJob     // the same, and publish the file
	closeJob      // close everything
)

const (
	// workers is how many goroutines wait for disks on behalf of all sessions.
	workers = 16

	// scanners is how many look through text files, which takes long, and must
	// keep nobody else from opening theirs.
	scanners = 2

	// maxText is the largest file that is sent in netascii, in bytes: the
	// request may be forged, and looking through a file costs more than it does.
	maxText = 64 << 20
)

// work runs the jobs until the queue is closed.
func work(queue <-chan *session) {
	for s := range queue {
		s.work()
		s.shard.workDone(s)
	}
}

func (s *session) work() {
	s.jobErr = nil
	switch s.job {
	case openJob:
		s.jobErr = s.open()
	case scanJob:
		s.jobErr = s.scan()
	case fetchJob:
		s.jobErr = s.fetchNow()
	case flushJob:
		s.jobErr = s.intake.flush(s.upload, s.flush.from, s.flush.to)
	case commitJob:
		if s.jobErr = s.intake.flush(s.upload, s.flush.from, s.flush.to); s.jobErr == nil {
			s.jobErr = s.commit()
		}
	case closeJob:
		s.closeFiles()
	}
}

// open asks the store for what the request names.
func (s *session) open() error {
	name, err := store.CleanName(s.request.Name)
	if err != nil {
		return err
	}
	if s.request.Write {
		return s.create(name)
	}
	f, err := s.shard.server.Store.Open(background, name)
	if err != nil {
		return err
	}
	s.file, s.reader = f, f
	info, err := f.Stat()
	if err != nil {
		return err
	}
	s.size = info.Size()
	if s.request.Mode == transfer.Netascii {
		if s.size > maxText {
			return errTextTooLarge
		}
		return nil // a scan follows
	}
	s.try, _ = f.(store.TryReader)
	return nil
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

func (s *session) create(name string) error {
	srv := s.shard.server
	offer := s.request.Offer
	if srv.Upload == NoUploads {
		return errUploadsOff
	}
	if offer.HasSize && offer.Size > srv.maxUpload() {
		return errTooLarge
	}
	// No space is set aside: the request may be forged, and a few of those
	// would fill the disk with nothing.
	u, err := srv.Store.Create(background, name, store.Create{Exclusive: srv.Upload == CreateUploads})
	s.upload = u
	return err
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
	case f.n >= f.need:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errChanged
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
	if s.file != nil {
		_ = s.file.Close() // it was read, there is nothing to lose
	}
	if s.upload != nil {
		_ = s.upload.Close() // discards, unless committed
	}
	s.file, s.reader, s.try, s.upload = nil, nil, nil, nil
}

// background is the context of a session's files. They are closed with the
// session, not by the end of a request.
var background = context.Background()
