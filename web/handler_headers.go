package web

import (
	"strconv"
	"strings"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// cut returns the first bytes of s, at most `most` of them.
func cut(s string, most int) string { return s[:min(len(s), most)] }

// digits reads a number that consists of digits only. A number that is too large becomes
// math.MaxInt64.
func digits(s string) (n int64, ok bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	most, _ := strconv.ParseUint(s, 10, 63) // on overflow the result is the largest number
	return int64(most), true
}

// quality returns the weight of name in the fields of an Accept or Accept-Encoding (RFC 9110
// §12.4.2), in thousandths, and whether they contain the name itself rather than a wildcard. A name
// that does not occur has weight 0.
func quality(fields []string, name string) (q int, named bool) {
	wildcard := 0
	for _, field := range fields {
		for item := range strings.SplitSeq(field, ",") {
			token, params, _ := strings.Cut(item, ";")
			token = strings.Trim(token, " \t")
			switch {
			case strings.EqualFold(token, name), name == "gzip" && strings.EqualFold(token, "x-gzip"):
				// x-gzip means the same as gzip (RFC 9110 §8.4.1.3).
				q, named = max(q, weight(params)), true
			case token == "*", token == "*/*":
				wildcard = max(wildcard, weight(params))
			}
		}
	}
	if !named {
		q = wildcard
	}
	return q, named
}

// weight returns the weight in the parameters of a list's element, in thousandths. A missing weight
// counts as 1000, and an invalid one as 0.
func weight(params string) int {
	for p := range strings.SplitSeq(params, ";") {
		key, value, ok := strings.Cut(strings.Trim(p, " \t"), "=")
		if !ok || !strings.EqualFold(strings.TrimRight(key, " \t"), "q") {
			continue
		}
		whole, fraction, _ := strings.Cut(strings.Trim(value, " \t"), ".")
		n, ok := digits((fraction + "000")[:3])
		switch {
		case !ok, len(fraction) > 3:
			return 0
		case whole == "1" && n == 0:
			return 1000
		case whole == "0":
			return int(n)
		}
		return 0
	}
	return 1000
}
