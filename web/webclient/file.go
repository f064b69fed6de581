package webclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

const (
	// firstRun is how many bytes ReadAt requests at first. While a file is read in order, this
	// number grows up to maxRun.
	firstRun = 1 << 20
	maxRun   = 32 << 20

	// maxSkip is how many bytes of an answer are read and discarded rather than sending a new
	// request for the bytes after them.
	maxSkip = 256 << 10

	// maxHash is how long a server may take to compute a hash.
	maxHash = 10 * time.Minute
)

// The values of remoteFile.ranges: whether the server supports range requests.
const (
	rangesUnknown = iota // the server does not say
	rangesYes
	rangesNo
)

// A remoteFile is a file on the server, open for reading. Open requests the whole of it; reads
// elsewhere in the file request ranges.
type remoteFile struct {
	c      *Client
	name   string
	info   fileInfo
	ctx    context.Context // ends with Close, or when the context of Open ends
	cancel context.CancelCauseFunc

	reading sync.Mutex // held by the one call of ReadAt that reads

	mu     sync.Mutex
	url    *url.URL  // the URL after redirects; guarded by mu
	ranges int       // rangesUnknown, rangesYes or rangesNo; guarded by mu
	size   int64     // size of the file; -1 while unknown; guarded by mu
	body   *response // the answer that ReadAt reads from; nil for none; guarded by mu
	at     int64     // the offset in the file of the next byte of body; guarded by mu
	end    int64     // the offset at which body ends; -1 if unknown; guarded by mu
	run    int64     // how many bytes the last request of ReadAt was for; guarded by mu
	single bool      // FetchTo uses only one request; guarded by mu
}

// newRemoteFile returns a file whose content is in the answer a, of which the headers have arrived.
func newRemoteFile(ctx context.Context, c *Client, name string, info fileInfo, a *response) *remoteFile {
	f := &remoteFile{c: c, name: name, info: info, url: a.Request.URL, size: info.version.size, body: a, end: info.version.size}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	a.follow(f.ctx)
	f.ranges = rangesOf(a)
	return f
}

// rangesOf returns rangesUnknown, rangesYes or rangesNo, according to the Accept-Ranges of an answer
// (RFC 9110 §14.3).
func rangesOf(a *response) int {
	for _, all := range a.Header.Values("Accept-Ranges") {
		for unit := range strings.SplitSeq(all, ",") {
			switch strings.ToLower(strings.TrimSpace(unit)) {
			case "bytes":
				return rangesYes
			case "none":
				return rangesNo
			}
		}
	}
	return rangesUnknown
}

// Stat describes the file as it was when it was opened.
func (f *remoteFile) Stat() (fs.FileInfo, error) {
	if f.ctx.Err() != nil && errors.Is(context.Cause(f.ctx), fs.ErrClosed) {
		return nil, f.c.fail("stat", f.name, fs.ErrClosed)
	}
	return f.info, nil
}

// Version returns a string that identifies the version of the file: it is different for any other
// content. It is "" if the server's headers do not distinguish versions.
func (f *remoteFile) Version() string { return f.info.version.key() }

// Close ends all requests for the file.
func (f *remoteFile) Close() error {
	if f.ctx.Err() != nil && errors.Is(context.Cause(f.ctx), fs.ErrClosed) {
		return f.c.fail("close", f.name, fs.ErrClosed)
	}
	f.cancel(fs.ErrClosed)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop()
	return nil
}

// drop closes the answer that ReadAt reads from. The caller holds mu.
func (f *remoteFile) drop() {
	if f.body != nil {
		f.body.close()
		f.body = nil
	}
}

// Hash returns the SHA-256 of the whole file, if the server sends it (RFC 9530).
func (f *remoteFile) Hash(ctx context.Context, off, n int64, algorithms ...string) (string, []byte, error) {
	if off != 0 || n != f.knownSize() || !slices.Contains(algorithms, "sha256") {
		return "", nil, errors.ErrUnsupported
	}
	conn, ok := f.c.conns.tryTake(false)
	if !ok {
		// Close the answer that ReadAt reads from: the request for the hash has to wait for a
		// connection, and the file must not hold another one meanwhile.
		f.reading.Lock()
		f.mu.Lock()
		f.drop()
		f.mu.Unlock()
		f.reading.Unlock()
	}
	h := http.Header{"Want-Repr-Digest": {"sha-256=10"}, "Want-Digest": {"sha-256"}}
	a, err := f.c.ask(ctx, request{method: http.MethodHead, url: f.where(), header: h, conn: conn, patience: maxHash})
	if err != nil {
		if ok {
			conn.release()
		}
		return "", nil, f.c.fail("hash", f.name, err)
	}
	defer a.close()
	sum := digestOf(a.Header)
	if a.StatusCode != http.StatusOK || sum == nil {
		return "", nil, errors.ErrUnsupported
	}
	if !f.info.version.same(versionOf(a.Header, a.ContentLength)) {
		return "", nil, f.c.fail("hash", f.name, ErrChanged)
	}
	return "sha256", sum, nil
}

func (f *remoteFile) knownSize() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size
}

func (f *remoteFile) where() *url.URL {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.url
}

// A rangeResponse is the answer to a request for a range.
type rangeResponse struct {
	*response
	first, end int64 // the range of the file in the answer; end is -1 if unknown
	whole      bool  // the server has sent the whole file instead
}

// askPart calls send to request the bytes from first to last, or to the end of the file if last is
// -1. An answer with another version of the file, or with another range than requested, is an
// error.
func (f *remoteFile) askPart(ctx context.Context, send func(context.Context, request) (*response, error), first, last int64, own bool) (*rangeResponse, error) {
	where := f.where()
	span := "bytes=" + strconv.FormatInt(first, 10) + "-"
	if last >= 0 {
		span += strconv.FormatInt(last, 10)
	}
	k := request{method: http.MethodGet, url: where, header: http.Header{"Range": {span}}, own: own}
	if guard := f.info.version.guard(); guard != "" {
		k.header.Set("If-Range", guard)
	}
	a, err := send(ctx, k)
	if err != nil {
		return nil, err
	}
	if home := f.c.urlOf(f.name, false); isGone(a.StatusCode) && where.String() != home.String() {
		// A URL that a redirect leads to may have expired. The original URL may redirect to a new
		// one.
		a.close()
		k.url = home
		if a, err = send(ctx, k); err != nil {
			return nil, err
		}
		f.mu.Lock()
		f.url = a.Request.URL
		f.mu.Unlock()
	}
	p, err := f.checkPart(a, first, last)
	if err != nil {
		a.close()
	}
	return p, err
}

// isGone reports whether a status may mean that a URL has expired.
func isGone(code int) bool {
	return code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound || code == http.StatusGone
}

// checkPart checks an answer against the request and the known properties of the file.
func (f *remoteFile) checkPart(a *response, first, last int64) (*rangeResponse, error) {
	size := f.knownSize()
	switch a.StatusCode {
	case http.StatusOK:
		if !f.info.version.continues(versionOf(a.Header, a.ContentLength)) {
			return nil, ErrChanged
		}
		if err := checkEncoding(a, f.name); err != nil {
			return nil, err
		}
		f.mu.Lock()
		f.ranges = rangesNo
		f.mu.Unlock()
		return &rangeResponse{response: a, end: size, whole: true}, nil
	case http.StatusRequestedRangeNotSatisfiable:
		if r, err := parseContentRange(a.Header.Get("Content-Range")); err == nil && size >= 0 && r.total != size {
			return nil, ErrChanged
		}
		return nil, statusError(a)
	case http.StatusPartialContent:
	default:
		return nil, statusError(a)
	}
	r, err := parseContentRange(a.Header.Get("Content-Range"))
	switch {
	case strings.HasPrefix(strings.ToLower(a.Header.Get("Content-Type")), "multipart/byteranges"):
		return nil, fmt.Errorf("%w: several parts, where one was asked for", ErrProtocol)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	case r.first != first || last >= 0 && r.last > last:
		return nil, fmt.Errorf("%w: the bytes %d to %d, where %d to %d were asked for", ErrProtocol, r.first, r.last, first, last)
	case !f.info.version.same(versionOf(a.Header, r.total)):
		return nil, ErrChanged
	case a.ContentLength >= 0 && a.ContentLength != r.last-r.first+1:
		return nil, fmt.Errorf("%w: a Content-Length of %d for %d bytes", ErrProtocol, a.ContentLength, r.last-r.first+1)
	case size >= 0 && r.last >= size:
		return nil, ErrChanged
	}
	if err := checkEncoding(a, f.name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.ranges = rangesYes
	f.mu.Unlock()
	return &rangeResponse{response: a, first: first, end: r.last + 1}, nil
}

// checkEnd returns an error if data follows the announced end of an answer: the bytes are then not
// those of the file.
func checkEnd(a *response) error {
	var more [1]byte
	n, err := io.ReadFull(a, more[:])
	switch {
	case n > 0:
		return fmt.Errorf("%w: more data than it said there would be", ErrProtocol)
	case err == io.EOF:
		return nil
	}
	return err
}

// ReadAt reads from the file at off. When a file is read in order, one request serves many reads,
// however small they are.
func (f *remoteFile) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, f.c.fail("read", f.name, fs.ErrInvalid)
	}
	f.reading.Lock()
	defer f.reading.Unlock()
	for e := (attempts{begun: true}); n < len(p); {
		if f.ctx.Err() != nil {
			return n, f.c.fail("read", f.name, context.Cause(f.ctx))
		}
		if size := f.knownSize(); size >= 0 && off+int64(n) >= size {
			return n, io.EOF
		}
		got, err := f.readSome(&e, p[n:], off+int64(n))
		n += got
		if got > 0 {
			e.moved()
		}
		switch err {
		case nil:
			continue
		case io.EOF:
			return n, io.EOF
		}
		switch {
		case errors.Is(err, ErrLost) && !errors.Is(err, ErrStalled):
			return n, f.c.fail("read", f.name, err) // askFor has already repeated the request
		case f.info.version.guard() == "" && isLoss(err):
			return n, f.c.fail("read", f.name, lostUnguarded(err))
		}
		pause, again := f.c.againAfterLoss(&e, err)
		if !again {
			return n, f.c.fail("read", f.name, lost(err, e.tries))
		}
		if err := rate.Sleep(f.ctx, pause); err != nil {
			return n, f.c.fail("read", f.name, err)
		}
	}
	return n, nil
}

// readSome reads some bytes at off, from the current answer or from a new one.
func (f *remoteFile) readSome(e *attempts, p []byte, off int64) (int, error) {
	if err := f.seek(e, off, int64(len(p))); err != nil {
		return 0, err
	}
	f.mu.Lock()
	body, at, end := f.body, f.at, f.end
	f.mu.Unlock()
	if body == nil {
		return 0, context.Cause(f.ctx)
	}
	if end >= 0 && int64(len(p)) > end-at {
		p = p[:end-at]
	}
	n, err := body.Read(p)
	at += int64(n)
	over := err == io.EOF
	switch {
	case over && end >= 0 && at < end:
		err = io.ErrUnexpectedEOF
	case over && end < 0:
		f.mu.Lock()
		f.size = at
		f.mu.Unlock()
		fallthrough
	case over:
		err = nil
	case err == nil && at == end:
		err = checkEnd(body)
		over = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = at
	if over || err != nil {
		f.drop()
	}
	return n, err
}

// seek ensures that the current answer continues at off. If that takes a new request, seek asks for
// at least `need` bytes, unless the file ends before.
func (f *remoteFile) seek(e *attempts, off, need int64) error {
	f.mu.Lock()
	ahead := off - f.at
	far := f.body == nil || ahead < 0 || ahead > maxSkip && f.ranges != rangesNo || f.end >= 0 && off >= f.end
	if !far && ahead == 0 {
		f.mu.Unlock()
		return nil
	}
	run := int64(firstRun)
	if f.body == nil && ahead == 0 && f.run > 0 {
		run = min(2*f.run, maxRun) // the file is read in order
	}
	ranges, size := f.ranges, f.size
	if far {
		f.drop()
	}
	f.mu.Unlock()
	if far {
		run = max(run, need)
		last := off + run - 1
		if size >= 0 {
			last = min(last, size-1)
		}
		part, err := f.begin(e, off, last, ranges)
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.body, f.at, f.end, f.run = part.response, part.first, part.end, run
		f.mu.Unlock()
	}
	return f.skip(off)
}

// begin requests the bytes from first to last, or the whole file if the server supports no ranges.
func (f *remoteFile) begin(e *attempts, first, last int64, ranges int) (*rangeResponse, error) {
	ask := func(ctx context.Context, k request) (*response, error) { return f.c.askFor(ctx, e, k) }
	if ranges != rangesNo {
		return f.askPart(f.ctx, ask, first, last, false)
	}
	a, err := ask(f.ctx, request{method: http.MethodGet, url: f.c.urlOf(f.name, false)})
	if err != nil {
		return nil, err
	}
	if a.StatusCode != http.StatusOK {
		return nil, refusalError(a)
	}
	p, err := f.checkPart(a, 0, -1)
	if err != nil {
		a.close()
	}
	return p, err
}

// skip reads and discards bytes up to off.
func (f *remoteFile) skip(off int64) error {
	f.mu.Lock()
	body, at := f.body, f.at
	f.mu.Unlock()
	if body == nil || at == off {
		return nil
	}
	n, err := io.CopyN(io.Discard, body, off-at)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = at + n
	if err != nil {
		f.drop()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
			if f.size < 0 {
				f.size = f.at
				err = io.EOF
			}
		}
	}
	return err
}

// stream returns an answer that begins at or before off: the answer to Open if possible, and
// otherwise a new one.
func (f *remoteFile) stream(ctx context.Context, off int64) (*rangeResponse, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	f.mu.Lock()
	p := &rangeResponse{response: f.body, first: f.at, end: f.end}
	good := f.body != nil && f.at <= off && (off-f.at <= maxSkip || f.ranges == rangesNo) && f.end == f.size
	ranges := f.ranges
	if good {
		f.body = nil
	} else {
		f.drop()
	}
	f.mu.Unlock()
	if !good {
		var err error
		if p, err = f.begin(new(attempts), off, -1, ranges); err != nil {
			return nil, err
		}
	}
	p.follow(ctx)
	return p, nil
}
