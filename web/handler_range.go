package web

import (
	"crypto/rand"
	"io"
	"math"
	"net/http"
	"strings"
)

// maxRanges is how many ranges of a file one request may have. A request with more ranges gets the
// whole file.
const maxRanges = 64

// A byteRange is a part of a file: n bytes from first.
type byteRange struct{ first, n int64 }

// contentRange returns the value of a Content-Range field (RFC 9110 §14.4).
func (b byteRange) contentRange(size int64) string {
	return "bytes " + itoa(b.first) + "-" + itoa(b.first+b.n-1) + "/" + itoa(size)
}

// ranges returns the ranges of p that a request wants, cut to the size of p. The list is empty if
// all ranges lie beyond the end of p. It returns false if the answer is the whole of p.
func (x delivery) ranges(p representation) ([]byteRange, bool) {
	values := x.r.Header["Range"]
	// A HEAD request has no ranges: RFC 9110 §14.2.
	if len(values) != 1 || x.r.Method != http.MethodGet {
		return nil, false
	}
	x.Range = cut(values[0], maxLogged)
	if !p.inRange(x.r.Header) {
		return nil, false
	}
	ranges, ok := requestedRanges(values[0], p.size)
	if !ok {
		return nil, false
	}
	// Overlapping ranges that sum to more than the file are an attack or a mistake.
	total := int64(0)
	for _, r := range ranges {
		if total += r.n; total > p.size {
			return nil, false
		}
	}
	if len(ranges) == 0 && p.size == 0 {
		return nil, false // some clients always send a Range, and want the whole file
	}
	return ranges, true
}

// requestedRanges reads a Range field (RFC 9110 §14.1.2, §14.2). It returns false if the field is
// to be ignored: it has another unit, too many ranges, or is malformed.
func requestedRanges(s string, size int64) (ranges []byteRange, ok bool) {
	unit, set, ok := strings.Cut(s, "=")
	if !ok || !strings.EqualFold(strings.Trim(unit, " \t"), "bytes") {
		return nil, false
	}
	asked := 0
	for spec := range strings.SplitSeq(set, ",") {
		spec = strings.Trim(spec, " \t")
		if spec == "" {
			continue // empty elements are ignored: RFC 9110 §5.6.1.2
		}
		if asked++; asked > maxRanges {
			return nil, false
		}
		from, to, ok := strings.Cut(spec, "-")
		first, hasFirst := digits(from)
		last, hasLast := digits(to)
		switch {
		case !ok, from != "" && !hasFirst, to != "" && !hasLast, from == "" && to == "":
			return nil, false
		case from == "": // "-N" means the last N bytes
			if n := min(last, size); n > 0 {
				ranges = append(ranges, byteRange{size - n, n})
			}
			continue
		case to == "":
			last = math.MaxInt64
		case last < first:
			return nil, false
		}
		if first < size {
			ranges = append(ranges, byteRange{first, min(last, size-1) - first + 1})
		}
	}
	return ranges, asked > 0
}

// multipart sends several ranges (RFC 9110 §14.6). It computes the length in advance, so that the
// answer has a Content-Length and is not chunked.
func (x delivery) multipart(p representation, mediaType string, ranges []byteRange) {
	boundary := rand.Text()
	heads := make([]string, len(ranges))
	end := "\r\n--" + boundary + "--\r\n"
	length := int64(len(end))
	for i, r := range ranges {
		heads[i] = "\r\n--" + boundary + "\r\nContent-Type: " + mediaType + "\r\nContent-Range: " + r.contentRange(p.size) + "\r\n\r\n"
		if i == 0 {
			heads[i] = heads[i][len("\r\n"):]
		}
		length += int64(len(heads[i])) + r.n
	}
	x.set("Content-Type", "multipart/byteranges; boundary="+boundary)
	x.set("Content-Length", itoa(length))
	x.Status = http.StatusPartialContent
	x.started()
	x.writeHeader(http.StatusPartialContent)
	for i, r := range ranges {
		x.patient(0)
		_, err := io.WriteString(x.w, heads[i])
		if err == nil {
			err = x.send(p.file, r.first, r.n)
		}
		if err != nil {
			x.abort(err)
		}
	}
	x.patient(0)
	if _, err := io.WriteString(x.w, end); err != nil {
		x.abort(err)
	}
}
