package protocol

import "bytes"

// In netascii (RFC 1350 §1, RFC 764) a line ends in CR LF, and a NUL follows a literal CR. Lines of
// local text end in LF.

// AppendNetascii appends local text in netascii. It translates each byte on its own, so a file may
// be translated in pieces.
func AppendNetascii(dst, text []byte) []byte {
	for len(text) > 0 {
		n := bytes.IndexAny(text, "\r\n")
		if n < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:n]...)
		if text[n] == '\n' {
			dst = append(dst, '\r', '\n')
		} else {
			dst = append(dst, '\r', 0)
		}
		text = text[n+1:]
	}
	return dst
}

// A NetasciiDecoder turns netascii into local text. It takes the pieces of a file in order. The
// zero value is ready for a file.
type NetasciiDecoder struct {
	cr bool // the previous piece ended in CR
}

// Append appends the text in the next piece of netascii. It appends at most as many bytes as the
// piece has, plus one for a CR at the end of the previous piece. A CR followed by anything but LF
// or NUL is kept, since some clients send text unchanged.
func (d *NetasciiDecoder) Append(dst, ascii []byte) []byte {
	for _, c := range ascii {
		if d.cr {
			d.cr = false
			switch c {
			case '\n':
				dst = append(dst, '\n')
				continue
			case 0:
				dst = append(dst, '\r')
				continue
			}
			dst = append(dst, '\r')
		}
		if c == '\r' {
			d.cr = true
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

// End appends the CR at the end of the file, if there was one.
func (d *NetasciiDecoder) End(dst []byte) []byte {
	if d.cr {
		d.cr = false
		dst = append(dst, '\r')
	}
	return dst
}
