package fileops

import (
	"encoding/hex"
	"slices"
	"strings"
)

// An algorithm is a hash algorithm. tag is its name in lines of the BSD format.
type algorithm struct {
	name, tag string
	bytes     int // length of a sum in bytes
}

// sumAlgorithms lists the algorithms of sha256sum and its relatives. Their sums have different
// lengths, so the length of a sum identifies the algorithm.
var sumAlgorithms = []algorithm{
	{"md5", "MD5", 16}, {"sha1", "SHA1", 20}, {"sha224", "SHA224", 28},
	{"sha256", "SHA256", 32}, {"sha384", "SHA384", 48}, {"sha512", "SHA512", 64},
}

// algorithmNamed returns the algorithm with a name or a tag.
func algorithmNamed(name string) (algorithm, bool) {
	i := slices.IndexFunc(sumAlgorithms, func(a algorithm) bool { return a.name == name || a.tag == name })
	if i < 0 {
		return algorithm{}, false
	}
	return sumAlgorithms[i], true
}

// escapes and unescapes convert backslashes, and the characters that would end a line, to escape
// sequences and back.
var (
	escapes   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	unescapes = map[byte]byte{'\\': '\\', 'n': '\n', 'r': '\r'}
)

// escapeSumName escapes a name for a line. mark is the prefix of the line: a backslash if the name
// needed escaping.
func escapeSumName(name string) (escaped, mark string) {
	if !strings.ContainsAny(name, "\\\n\r") {
		return name, ""
	}
	return escapes.Replace(name), `\`
}

// unescapeSumName reverses escapeSumName. ok is false if s contains an invalid escape sequence.
func unescapeSumName(s string) (name string, ok bool) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' {
			i++
			if i == len(s) {
				return "", false
			}
			if c, ok = unescapes[s[i]]; !ok {
				return "", false
			}
		}
		b = append(b, c)
	}
	return string(b), true
}

// formatSum returns the line for a file in the format of sha256sum, without the line feed. If `tag`
// is set, it uses the BSD format. If `raw` is set, it does not escape the name.
func formatSum(a algorithm, sum []byte, name string, tag, raw bool) string {
	mark := ""
	if !raw {
		name, mark = escapeSumName(name)
	}
	if tag {
		return mark + a.tag + " (" + name + ") = " + hex.EncodeToString(sum)
	}
	return mark + hex.EncodeToString(sum) + "  " + name
}

// A sumLine is a parsed line of a list of sums.
type sumLine struct {
	algorithm
	sum  []byte
	name string
}

// A sumParser parses lines as sha256sum --check does.
type sumParser struct {
	only *algorithm // the only algorithm that is accepted; nil means that the tag or the length of the sum decides

	// All lines of a list have the same separator between sum and name: either one space, or a
	// space and one more character. If lines could differ, a name that begins with a space would be
	// ambiguous.
	oneSpace, twoSpaces bool
}

// parse parses a line without its line feed.
func (p *sumParser) parse(line string) (l sumLine, ok bool) {
	line = strings.TrimLeft(line, " \t")
	line, escaped := strings.CutPrefix(line, `\`)
	if word, rest, found := strings.Cut(line, "("); found && p.isTag(strings.TrimSuffix(word, " ")) {
		l, ok = parseTagged(strings.TrimSuffix(word, " "), rest)
	} else {
		l, ok = p.parsePlain(line)
	}
	if ok && escaped {
		l.name, ok = unescapeSumName(l.name)
	}
	return l, ok && l.name != "" && strings.IndexByte(l.name, 0) < 0
}

// isTag reports whether a word is the tag of an accepted algorithm.
func (p *sumParser) isTag(word string) bool {
	a, ok := algorithmNamed(word)
	return ok && a.tag == word && (p.only == nil || *p.only == a)
}

// parseTagged parses the rest of a line in the BSD format: NAME) = SUM.
func parseTagged(tag, rest string) (l sumLine, ok bool) {
	l.algorithm, _ = algorithmNamed(tag)
	end := strings.LastIndexByte(rest, ')')
	if end < 0 {
		return l, false
	}
	l.name = rest[:end]
	digits, ok := strings.CutPrefix(strings.TrimLeft(rest[end+1:], " \t"), "=")
	if !ok {
		return l, false
	}
	return l, l.setSum(strings.TrimLeft(digits, " \t"))
}

// parsePlain parses a line in which one space, two spaces, or a space and an asterisk separate the
// sum from the name.
func (p *sumParser) parsePlain(line string) (l sumLine, ok bool) {
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return l, false
	}
	i := slices.IndexFunc(sumAlgorithms, func(a algorithm) bool { return 2*a.bytes == end && (p.only == nil || *p.only == a) })
	if i < 0 {
		return l, false
	}
	l.algorithm = sumAlgorithms[i]
	if !l.setSum(line[:end]) {
		return l, false
	}
	l.name = line[end+1:]
	if len(l.name) > 1 && (l.name[0] == ' ' || l.name[0] == '*') && !p.oneSpace {
		p.twoSpaces, l.name = true, l.name[1:]
		return l, true
	}
	if p.twoSpaces || l.name == "" {
		return l, false
	}
	p.oneSpace = true
	return l, true
}

// setSum decodes the hexadecimal digits of a sum, and reports whether they are valid.
func (l *sumLine) setSum(digits string) bool {
	sum, err := hex.DecodeString(digits)
	l.sum = sum
	return err == nil && len(sum) == l.bytes
}
