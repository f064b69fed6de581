package treecopy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// These limits exist because each name may have to be matched with all rules.
const (
	maxRules   = 10_000
	maxPattern = 4096 // length of a pattern in bytes

	// maxBraces is the largest number of groups of alternatives, such as {a,b}, in one pattern. The
	// time to match a name grows with the product of their sizes.
	maxBraces = 8
)

// A verdict says whether a file or a directory is copied.
type verdict int

const (
	// included means that the file is copied, or the directory with those of its contents that the
	// rules include.
	included verdict = iota
	entered          // the directory is excluded, but files below it may be included
	excluded         // neither the file nor the directory, nor anything in the directory, is copied
)

// A Filter decides which files of a tree are copied. Its rules have the syntax of rclone's filter
// rules:
//
//	f := new(treecopy.Filter)
//	err := f.AddText("- *.o\n- /build/\n+ /src/**\n- **\n")
//
// The first rule whose pattern matches a file decides. A file that matches no rule is copied; so
// the zero value and nil exclude nothing. Names are relative to the tree, with slashes. A pattern
// that begins with a slash matches from the root of the tree; any other pattern matches the last
// elements of a name. Within an element, "*" and "?" match anything but a slash, "[a-z]" matches
// one of these characters, "[^a-z]" and "[!a-z]" match any other character, "{a,b}" matches a or b,
// and "\" makes the next character literal. The element "**" stands for one or more elements. A
// pattern that ends in a slash is for directories: "- dir/" excludes the directory with its
// contents, as "- dir/**" does, and "+ dir/" includes the directory without its contents. A pattern
// that does not end in a slash matches only files.
//
// Two forms of rclone are not supported: "**" as a part of an element, and regular expressions in
// double braces. Unlike in rclone, "*" and "**" match every name, even one that contains a line
// end.
//
// A filter must not be changed while it is used.
type Filter struct {
	list []rule
	only bool // names that match no rule are excluded; see IncludeOnly
}

// A rule includes or excludes the names that a pattern matches.
type rule struct {
	include  bool
	anchored bool     // the pattern begins with a slash, so it matches from the root of the tree
	dir      bool     // the rule is "+ dir/": it matches the directory, but not its contents
	tree     bool     // the rule also matches everything below the names that elems match
	elems    []string // elements of the pattern, without the final "**" if tree is set
	file     string   // doublestar pattern for names of files
	top      string   // if dir or tree is set: doublestar pattern for names of directories; "" matches the root
}

// empty reports whether the filter includes everything: it has no rules, and IncludeOnly was not
// called.
func (f *Filter) empty() bool { return f == nil || len(f.list) == 0 && !f.only }

// IncludeOnly makes the filter exclude names that match no rule.
func (f *Filter) IncludeOnly() { f.only = true }

// Add appends a rule. It returns an error if the pattern is invalid.
func (f *Filter) Add(include bool, pattern string) error {
	if len(f.list) == maxRules {
		return fmt.Errorf("more than %d rules", maxRules)
	}
	one, err := parseRule(include, pattern)
	if err != nil {
		return fmt.Errorf("pattern %.200q: %w", pattern, err)
	}
	f.list = append(f.list, one)
	return nil
}

// AddText adds the rules in text, which has one rule per line: "+ PATTERN" includes, "- PATTERN"
// excludes, and "!" removes all rules before it. Empty lines and lines that begin with "#" or ";"
// are ignored.
func (f *Filter) AddText(text string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		var err error
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line == "!":
			f.list = nil
		case strings.HasPrefix(line, "+ "), strings.HasPrefix(line, "- "):
			err = f.Add(line[0] == '+', line[2:])
		default:
			err = fmt.Errorf("%.200q is no rule: write ! to remove all before, + PATTERN or - PATTERN", line)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// parseRule parses a pattern into a rule.
func parseRule(include bool, pattern string) (rule, error) {
	if len(pattern) > maxPattern {
		return rule{}, fmt.Errorf("longer than %d bytes", maxPattern)
	}
	elems, err := splitPattern(pattern)
	if err != nil {
		return rule{}, err
	}
	r := rule{include: include, anchored: strings.HasPrefix(pattern, "/")}
	elems = slices.DeleteFunc(slices.Clone(elems), func(e string) bool { return e == "" })
	switch {
	case len(elems) == 0:
		return rule{}, errors.New("it names nothing; ** is everything")
	case !strings.HasSuffix(pattern, "/"):
	case include:
		r.dir = true
	default:
		elems = append(elems, "**")
	}
	if len(elems) == 1 && elems[0] == "*" && !r.anchored && !r.dir {
		elems = []string{"**"} // "*" matches the last element of every name, and "**" every name
	}
	if r.tree = elems[len(elems)-1] == "**"; r.tree {
		r.file = r.glob(elems)
		elems = elems[:len(elems)-1]
	}
	r.elems = elems
	if len(elems) > 0 {
		r.top = r.glob(elems)
	}
	if !r.tree {
		r.file = r.top
	}
	if !doublestar.ValidatePattern(r.file) {
		return rule{}, errors.New(`it has a [ without ], a { without }, or ends in \`)
	}
	return r, nil
}

// glob converts elements of a pattern to the syntax of package doublestar, in which "**" stands for
// zero or more elements.
func (r *rule) glob(elems []string) string {
	var list []string
	if !r.anchored {
		list = append(list, "**")
	}
	for _, e := range elems {
		if list = append(list, e); e == "**" {
			list = append(list, "*")
		}
	}
	return strings.Join(list, "/")
}

// splitPattern splits a pattern at its slashes, except for those in braces.
func splitPattern(pattern string) (elems []string, err error) {
	begin, braces, groups, class := 0, 0, 0, false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '{' && strings.HasPrefix(pattern[i:], "{{"):
			return nil, errors.New("it has a regular expression in {{}}, which haul does not have")
		case c == '{':
			braces++
			groups++
		case c == '}' && braces == 0, c == ']':
			return nil, fmt.Errorf(`it has a %c that nothing opens; \%c is the character`, c, c)
		case c == '}':
			braces--
		case c == '/' && braces == 0:
			elems, begin = append(elems, pattern[begin:i]), i+1
		case strings.HasPrefix(pattern[i:], "**"):
			end := i + 2
			if whole := braces == 0 && i == begin && (end == len(pattern) || pattern[end] == '/'); !whole {
				return nil, errors.New("** has to be an element of its own, between slashes")
			}
			i++
		}
	}
	if groups > maxBraces {
		return nil, fmt.Errorf("more than %d groups of alternatives in braces", maxBraces)
	}
	return append(elems, pattern[begin:]), nil
}

// match returns the verdict on a file or a directory of the tree. A symbolic link counts as a file.
// If a directory is excluded, so is everything in it, and match need not be called for its
// contents.
func (f *Filter) match(name string, dir bool) verdict {
	if f.empty() {
		return included
	}
	enter := false
	for i := range f.list {
		one := &f.list[i]
		switch {
		case !dir && !one.dir && matchPattern(one.file, name):
			return one.verdict(false)
		case dir && (one.dir || one.tree) && one.covers(name):
			return one.verdict(enter)
		case dir && one.include && !one.dir && one.reaches(name):
			enter = true
		}
	}
	last := rule{include: !f.only}
	return last.verdict(enter)
}

// verdict returns the verdict of a rule that matches a name. `enter` says that the name is a
// directory, and that an earlier rule may include files below it.
func (r *rule) verdict(enter bool) verdict {
	switch {
	case r.include:
		return included
	case enter:
		return entered
	}
	return excluded
}

// covers reports whether the rule matches a directory, with or without everything below it.
func (r *rule) covers(dir string) bool {
	return r.top == "" || matchPattern(r.top, dir) || r.tree && matchPattern(r.file, dir)
}

// reaches reports whether the rule may match something below a directory.
func (r *rule) reaches(dir string) bool {
	if !r.anchored {
		return true
	}
	names := strings.Split(dir, "/")
	for i, e := range r.elems {
		switch {
		case e == "**" || i == len(names) || strings.Contains(e, "/"):
			return true
		case !matchPattern(e, names[i]):
			return false
		}
	}
	return r.tree
}

// matchPattern reports whether a valid pattern matches a name.
func matchPattern(pattern, name string) bool {
	ok, _ := doublestar.Match(pattern, name)
	return ok
}
