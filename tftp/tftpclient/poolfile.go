package tftpclient

import (
	"io"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
)

// A poolFile is the file of a transfer. Workers call do, which may wait for a disk. The loop calls
// TryReadAt and clear, which never wait.
type poolFile struct {
	buffer fileio.WriteBuffer
	fetch  fileio.FetchBuffer
	upload store.Upload
	reader io.ReaderAt // source of a write, or its translation to netascii
	try    store.TryReader
	size   int64 // number of bytes in reader
}

// clear prepares f for another transfer. It keeps the buffers, unless they are large.
func (f *poolFile) clear() {
	*f = poolFile{buffer: f.buffer.Spare(clientRing), fetch: f.fetch.Spare(fileio.MaxFetch)}
}

// do does a job other than OpenJob. CloseJob discards a download that failed.
func (f *poolFile) do(job fileio.Job) error {
	switch job {
	case fileio.ScanJob:
		return f.scan()
	case fileio.FlushJob:
		return f.buffer.Flush(f.upload)
	case fileio.CommitJob:
		return f.commit()
	case fileio.FetchJob:
		return f.fetch.Fetch(f.reader)
	case fileio.CloseJob:
		u := f.upload
		f.upload = nil
		_ = u.Close() // discards the upload; an error does not matter, because the transfer has failed already
	}
	return nil
}

// scan replaces the source with its translation to netascii, and determines the size of the
// translation.
func (f *poolFile) scan() error {
	text, err := fileio.OpenText(io.NewSectionReader(f.reader, 0, f.size), nil)
	if err != nil {
		return err
	}
	f.reader, f.size = text, text.Size()
	return nil
}

// commit publishes a complete file.
func (f *poolFile) commit() error {
	if err := f.buffer.Commit(f.upload); err != nil {
		return err
	}
	u := f.upload
	f.upload = nil
	return u.Close()
}

// TryReadAt returns the data at off if a worker has fetched it. Otherwise it reads only what the
// source has in memory.
func (f *poolFile) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if n := f.fetch.CopyTo(bufs, off); n > 0 {
		return n, nil
	}
	if f.try == nil {
		return 0, store.ErrWouldBlock
	}
	return fileio.TryBlocks(f.try, bufs, off)
}
