package web

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/store"
)

// maxSource is the largest size of an Upload-Source, in bytes.
const maxSource = 256

// receiveBytes is the size of the buffers for uploads.
const receiveBytes = 256 << 10

var receiveBuffers = sync.Pool{New: func() any { return new([receiveBytes]byte) }}

// An uploading is an exchange that uploads or removes a file.
type uploading struct{ *exchange }

// put answers PUT (RFC 9110 §9.3.4). The first read of the content sends 100 Continue, so all
// checks that could refuse the upload come before it.
func (x uploading) put() {
	err := x.receive()
	if errors.Is(err, fs.ErrExist) && x.onlyNew() {
		err = fmt.Errorf("%w: %w", errCondition, err) // the file was created after the conditions were checked
	}
	if x.r.ProtoMajor == 1 && (errors.Is(err, ErrCutOff) || errors.Is(err, errStalled)) {
		x.set("Connection", "close") // otherwise net/http would wait for the rest of the content
	}
	if err != nil {
		x.fail(err)
	}
}

func (x uploading) receive() error {
	if x.dir {
		return errPutDir
	}
	if len(x.r.Header["Content-Encoding"]) > 0 && x.r.Header.Get("Content-Encoding") != "identity" {
		x.set("Accept-Encoding", "identity") // names the only accepted coding (RFC 9110 §12.5.3)
		return errCoded
	}
	part, err := x.uploadPart()
	if err != nil {
		return err
	}
	size := x.r.ContentLength // -1 if unknown
	if part != nil {
		size = part.total
	}
	x.Size = size
	if x.h.MaxUpload > 0 && size > x.h.MaxUpload {
		return errTooLarge
	}
	exists, err := x.mayPut()
	if err != nil {
		return err
	}
	var published store.Published
	c := store.Create{Size: max(size, 0), Exclusive: !x.acct.Access.replaces() || x.onlyNew(), Parents: true, Published: &published}
	defer func() { x.Published = published.OrNil() }()
	if part != nil {
		return x.receivePart(part, c, exists)
	}
	u, err := x.acct.Store.Create(x.ctx(), x.name, c)
	if err != nil {
		return err
	}
	defer u.Close() // discards the upload, unless it was committed
	x.Path = store.LocationOf(u).Path
	x.started()
	if err := x.fill(u, 0, size); err != nil {
		return err
	}
	x.Size = x.Received()
	return x.publish(u, exists)
}

// mayPut checks the request's conditions, and reports whether a file with the name exists and will
// be replaced. It does not check whether the name may be used: the store does that, because uploads
// may be stored in another place than the served files.
func (x uploading) mayPut() (exists bool, err error) {
	fi, err := x.acct.Store.Stat(x.ctx(), x.name)
	switch {
	case err == nil:
		exists = !fi.IsDir() && x.acct.Access.replaces()
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, fs.ErrPermission): // a client that may not read may still write
	default:
		return false, err
	}
	return exists, x.holds()
}

// holds returns an error unless the request's conditions hold for the file that has the name now.
func (x uploading) holds() error {
	if !conditional(x.r.Header) {
		return nil
	}
	return x.holding(func(fs.FileInfo) error { return nil })
}

// holding calls the function `do` if the conditions hold for the file that has the name now, and
// otherwise returns an error. `do` gets the file's description, or nil if there is no file. The file
// stays open until `do` returns. Clients that may only upload learn nothing from the conditions
// except whether the file exists.
func (x uploading) holding(do func(was fs.FileInfo) error) error {
	var v validators
	var was fs.FileInfo
	f, err := store.File(nil), fs.ErrPermission
	if x.acct.Access.reads() {
		f, err = x.acct.Store.Open(x.ctx(), x.name)
	}
	switch {
	case err == nil:
		defer f.Close()
		if was, err = f.Stat(); err == nil {
			v = validatorsOf(f, was, "", time.Now())
		}
	case errors.Is(err, fs.ErrPermission):
		was, err = x.acct.Store.Stat(x.ctx(), x.name)
		v.exists = err == nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if v.precondition(x.r.Method, x.r.Header, x.Began) != 0 {
		return errCondition
	}
	return do(was)
}

// onlyNew reports whether the request must not replace a file (If-None-Match: *). The store then
// enforces that until the commit.
func (x uploading) onlyNew() bool {
	for _, field := range x.r.Header["If-None-Match"] {
		if strings.Trim(field, " \t") == "*" {
			return true
		}
	}
	return false
}

// fill writes the content of the request to u, from off on. The content must have n bytes; if n is
// -1, the bound for uploads of unknown size applies.
func (x uploading) fill(u store.Upload, off, n int64) error {
	most := n
	if n < 0 {
		if most = x.h.MaxUpload; most <= 0 {
			most = defaultMaxUnsized
		}
	}
	buf := receiveBuffers.Get().(*[receiveBytes]byte)
	defer receiveBuffers.Put(buf)
	body := &patientReader{x: x.exchange}
	defer body.done()
	if x.r.ProtoMajor == 1 {
		x.patient(0) // a deadline for 100 Continue, which net/http sends at the first read
	}
	for left := most; ; {
		body.due = 0 // the time that the last piece took here must not count against the peer
		// Reading one byte more than allowed shows whether there is too much.
		got, err := io.ReadFull(body, buf[:min(left+1, int64(len(buf)))])
		wait := x.addReceived(int64(got))
		if int64(got) > left {
			if n < 0 {
				return errTooLarge
			}
			return errUploadRange
		}
		if got > 0 {
			if _, err := u.WriteAt(buf[:got], off); err != nil {
				return err
			}
			off, left = off+int64(got), left-int64(got)
		}
		if err := x.sleep(wait); err != nil {
			return err
		}
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF && body.ended:
			if n >= 0 && left > 0 {
				return ErrCutOff
			}
			return nil
		case err != nil:
			return body.reason(err)
		}
	}
}

// A patientReader reads the content of a request. The peer has the time
// Handler.Stall for each minStep bytes, so it cannot keep a request open by sending single bytes. The
// same bound applies to a file that the peer receives.
type patientReader struct {
	x      *exchange
	due    int  // bytes that must arrive before the deadline; if 0 or less, the next read moves the deadline
	ended  bool // the client has sent the whole content
	silent bool // the last read has failed because its deadline had passed
}

func (p *patientReader) Read(b []byte) (int, error) {
	if p.due <= 0 {
		p.x.readBy(time.Now().Add(p.x.h.stall()))
		p.due = minStep
	}
	n, err := p.x.r.Body.Read(b)
	p.due -= n
	p.ended, p.silent = err == io.EOF, errors.Is(err, os.ErrDeadlineExceeded)
	return n, err
}

// done sets a deadline for the rest of the content, which net/http reads before it answers or
// before it closes the connection. If the deadline has passed, net/http closes the connection at
// once.
func (p *patientReader) done() {
	switch {
	case p.ended:
		p.x.readBy(time.Time{})
	case !p.silent:
		p.x.readBy(time.Now().Add(p.x.h.stall()))
	}
}

// reason returns the error with which the request fails if reading its content has failed with err.
func (p *patientReader) reason(err error) error {
	tooLarge, ok := errors.AsType[*http.MaxBytesError](err)
	switch {
	case ok:
		return fmt.Errorf("%w: %w", errTooLarge, tooLarge)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", errStalled, err)
	}
	return fmt.Errorf("%w: %w", ErrCutOff, err)
}

// publish commits an upload and answers. If the request has conditions, they are checked once more.
// A change between that check and the commit goes unnoticed, except with If-None-Match: *, which
// the store checks.
func (x uploading) publish(u store.Upload, exists bool) error {
	if len(x.r.Header["If-Match"]) > 0 || len(x.r.Header["If-Unmodified-Since"]) > 0 {
		if err := x.holds(); err != nil {
			return err
		}
	}
	if err := u.Commit(); err != nil {
		return err
	}
	if exists {
		x.writeHeader(http.StatusNoContent)
		return nil
	}
	x.reply(http.StatusCreated, "created")
	return nil
}

// remove answers DELETE (RFC 9110 §9.3.5). Directories cannot be removed.
func (x uploading) remove() {
	remove := store.CapabilitiesOf(x.acct.Store).Remove
	err := errors.ErrUnsupported
	switch {
	case x.dir:
		err = store.ErrNotRegular
	case remove == nil:
	case conditional(x.r.Header):
		err = x.holding(func(was fs.FileInfo) error {
			if was == nil {
				return fs.ErrNotExist
			}
			return store.RemoveIf(x.ctx(), x.acct.Store, x.name, was)
		})
	default:
		err = remove(x.ctx(), x.name)
	}
	if err != nil {
		x.fail(err)
		return
	}
	x.writeHeader(http.StatusNoContent)
}

// An uploadPart is the part of a file that a PUT contains: the bytes from first to last, of total.
// If last is before first, the PUT contains no data, and asks how many bytes the server has.
type uploadPart struct{ first, last, total int64 }

func (p uploadPart) n() int64   { return p.last - p.first + 1 }
func (p uploadPart) asks() bool { return p.last < p.first }

// uploadPart returns the part that the request contains, or nil if it contains the whole file.
func (x uploading) uploadPart() (*uploadPart, error) {
	values := x.r.Header["Content-Range"]
	if len(values) == 0 {
		return nil, nil
	}
	x.Range = cut(values[0], maxLogged)
	p, ok := parseUploadRange(values[0])
	if !ok || len(values) > 1 {
		return nil, errUploadRange
	}
	if n := x.r.ContentLength; n >= 0 && n != p.n() {
		return nil, errUploadRange
	}
	if len(x.r.Header.Get("Upload-Source")) > maxSource {
		return nil, errSource
	}
	return &p, nil
}

// parseUploadRange reads a Content-Range (RFC 9110 §14.4) of a request: "bytes 0-99/200", or "bytes
// */200", which asks how many bytes the server has. The size must be known.
func parseUploadRange(s string) (p uploadPart, ok bool) {
	unit, rest, _ := strings.Cut(s, " ")
	if !strings.EqualFold(unit, "bytes") {
		return p, false
	}
	span, size, _ := strings.Cut(rest, "/")
	// If the number is too large, digits returns math.MaxInt64, which is not a valid size.
	if p.total, ok = digits(size); !ok || p.total <= 0 || p.total == math.MaxInt64 {
		return uploadPart{}, false
	}
	if span == "*" {
		p.last = -1
		return p, true
	}
	first, last, _ := strings.Cut(span, "-")
	var ok2 bool
	p.first, ok = digits(first)
	p.last, ok2 = digits(last)
	if !ok || !ok2 || p.last < p.first || p.last >= p.total {
		return uploadPart{}, false
	}
	return p, true
}

// receivePart receives a part of an upload (RFC 9110 §14.5), or answers how many bytes the server
// has. If the connection is lost, a store that supports it keeps the received bytes for the next
// request. After the last part, receivePart publishes the file.
func (x uploading) receivePart(p *uploadPart, c store.Create, exists bool) error {
	c.Resume, c.Source = x.uploader(), x.r.Header.Get("Upload-Source")
	c.Parents = !p.asks() // a request that only asks creates no directories
	u, err := x.acct.Store.Create(x.ctx(), x.name, c)
	if p.asks() && errors.Is(err, fs.ErrNotExist) {
		x.kept(0) // the directory is missing, so the server has no bytes of the upload
		return nil
	}
	if err != nil {
		return err
	}
	defer u.Close() // keeps the part, unless the upload was committed
	x.Path = store.LocationOf(u).Path
	r, resumes := store.As[store.Resumer](u)
	there := int64(0)
	if resumes {
		there = r.Resumed()
	}
	whole := p.last+1 == p.total
	switch {
	case p.asks():
		return x.keep(u, there)
	case !resumes && (p.first > 0 || !whole):
		return errNotResumable
	case p.first > there:
		x.offset(there)
		return errGap
	}
	x.started()
	if err := x.fill(u, p.first, p.n()); err != nil {
		return err
	}
	if whole {
		return x.publish(u, exists)
	}
	return x.keep(u, max(there, p.last+1))
}

// keep closes an upload that will be resumed, so that its bytes are safe, and answers how many
// bytes the server has.
func (x uploading) keep(u store.Upload, there int64) error {
	if err := u.Close(); err != nil {
		return err
	}
	x.kept(there)
	return nil
}

// kept answers with the number of bytes that the server has.
func (x uploading) kept(there int64) {
	x.offset(there)
	x.reply(http.StatusAccepted, "that much is there: see Upload-Offset")
}

// offset sets the field with the number of bytes that the server has of an upload.
func (x uploading) offset(n int64) { x.set("Upload-Offset", itoa(n)) }

// uploader names the owner of an upload, so that no client resumes another's: the user or, without
// a user, the address.
func (x uploading) uploader() string {
	if x.acct.User != "" {
		return "http user " + x.acct.User
	}
	return "http peer " + x.Peer.Addr().Unmap().WithZone("").String()
}
