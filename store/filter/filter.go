// Package filter decides by rules which files of a tree are copied. The rules are those of
// rclone's filters:
//
//	rules := new(filter.Rules)
//	err := rules.AddText("- *.o\n- /build/\n+ /src/**\n- **\n")
//
// The first rule whose pattern matches a file decides; a file that none matches is taken. Names
// are those in the tree, with slashes. A pattern that begins with a slash matches from the root of
// the tree, and any other one matches the last elements of a name. In an element, "*" and "?"
// stand for all but a slash, "[a-z]" for one of these characters, "[^a-z]" and "[!a-z]" for another
// one, "{a,b}" for a or b, and "\" takes the meaning from the character behind it. The element "**"
// stands for one element or more. A pattern that ends in a slash is of a directory: "- dir/"
// excludes the directory with all that is in it, as "- dir/**" does, and "+ dir/" includes the
// directory without what is in it. A pattern without a slash at its end matches files, and never
// directories.
//
// Two things are refused that rclone has: "**" as a part of an element, and regular expressions in
// double braces. Unlike with rclone, "*" and "**" match every name, one with a line end in it too.
package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// The bounds of rules. All of them may be tried for each name.
const (
	MaxRules   = 10_000
	MaxPattern = 4096 // bytes

	// MaxBraces is how many groups of alternatives one pattern has. The time to match a name
	// grows with their product.
	MaxBraces = 8
)

// A Verdict says what becomes of a file or a directory.
type Verdict int

// The verdicts.
const (
	Take  Verdict = iota // a file is copied, and a directory with what is in it, as the rules say
	Enter                // a directory is excluded, but files below it may be included
	Skip                 // a file is not copied, nor anything that is in a directory
)

// Rules are a list of rules, of which the first that matches decides. The zero value and nil
// take everything. Any goroutine may call Match while none adds rules.
type Rules struct {
	list []rule
	only bool // see IncludeOnly
}

// A rule includes or excludes what a pattern matches.
type rule struct {
	include  bool
	anchored bool
	dir      bool     // "+ dir/": it matches the directory alone
	tree     bool     // it matches all that is below what the elements before its end match
	elems    []string // of the pattern: without a "**" at the end of a tree
	file     string   // what doublestar matches with the name of a file
	top      string   // of a tree, or a directory: with the name of the directory; "" for the root
}

// Empty reports whether there are no rules.
func (r *Rules) Empty() bool { return r == nil || len(r.list) == 0 && !r.only }

// IncludeOnly has everything excluded that no rule matches.
func (r *Rules) IncludeOnly() { r.only = true }

// Add adds a rule behind all others. An error says what is wrong with the pattern.
func (r *Rules) Add(include bool, pattern string) error {
	if len(r.list) == MaxRules {
		return fmt.Errorf("more than %d rules", MaxRules)
	}
	one, err := parse(include, pattern)
	if err != nil {
		return fmt.Errorf("pattern %.200q: %w", pattern, err)
	}
	r.list = append(r.list, one)
	return nil
}

// AddText adds the rules of a text, one a line: "+ PATTERN" includes, "- PATTERN" excludes, and
// "!" removes all rules before it. Lines that are empty, or begin with "#" or ";", are left out.
func (r *Rules) AddText(text string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		var err error
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line == "!":
			r.list = nil
		case strings.HasPrefix(line, "+ "), strings.HasPrefix(line, "- "):
			err = r.Add(line[0] == '+', line[2:])
		default:
			err = fmt.Errorf("%.200q is no rule: write ! to remove all before, + PATTERN or - PATTERN", line)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// parse reads a pattern.
func parse(include bool, pattern string) (rule, error) {
	if len(pattern) > MaxPattern {
		return rule{}, fmt.Errorf("longer than %d bytes", MaxPattern)
	}
	elems, err := split(pattern)
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
		elems = []string{"**"} // each name has a last element
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

// glob returns elements of a pattern as doublestar has them, in which "**" stands for any number
// of elements, zero included.
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

// split splits a pattern at its slashes, but for those in braces.
func split(pattern string) (elems []string, err error) {
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
	if groups > MaxBraces {
		return nil, fmt.Errorf("more than %d groups of alternatives in braces", MaxBraces)
	}
	return append(elems, pattern[begin:]), nil
}

// Match returns the verdict on a file, or a directory, of a name in the tree. A symbolic link is
// a file. A file in a directory whose verdict is Skip need not be asked for: its own is Skip too.
func (r *Rules) Match(name string, dir bool) Verdict {
	if r.Empty() {
		return Take
	}
	enter := false
	for i := range r.list {
		one := &r.list[i]
		switch {
		case !dir && !one.dir && match(one.file, name):
			return one.verdict(false)
		case dir && (one.dir || one.tree) && one.covers(name):
			return one.verdict(enter)
		case dir && one.include && !one.dir && one.reaches(name):
			enter = true
		}
	}
	last := rule{include: !r.only}
	return last.verdict(enter)
}

// verdict returns the verdict of a rule that matches. enter says that files below may be included.
func (r *rule) verdict(enter bool) Verdict {
	switch {
	case r.include:
		return Take
	case enter:
		return Enter
	}
	return Skip
}

// covers reports whether a rule matches a directory: itself, or with all that is below it.
func (r *rule) covers(dir string) bool {
	return r.top == "" || match(r.top, dir) || r.tree && match(r.file, dir)
}

// reaches reports whether a rule may match something below a directory.
func (r *rule) reaches(dir string) bool {
	if !r.anchored {
		return true
	}
	names := strings.Split(dir, "/")
	for i, e := range r.elems {
		switch {
		case e == "**" || i == len(names) || strings.Contains(e, "/"):
			return true
		case !match(e, names[i]):
			return false
		}
	}
	return r.tree
}

// match matches a pattern that was found to be valid.
func match(pattern, name string) bool {
	ok, _ := doublestar.Match(pattern, name)
	return ok
}
