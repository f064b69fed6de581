package commandline

import (
	"slices"
	"strings"
)

// A Program holds the parts of the command line that no single command owns.
type Program struct {
	Topics  []Topic  // topics of "haul help", in the order in which it lists them
	Groups  []string // groups of flags, in the order in which --help-all prints them
	Version string   // version of the program, which the manual pages show
}

// A Topic is a page of "haul help". It explains one group of a command's flags, or a subject that
// concerns several commands.
type Topic struct {
	Name  string // the words after "haul help"
	Short string
	Text  string

	Of    string // the command whose flags the page lists after the text; "" means that no flags are listed
	Flags string // the group of flags that the page lists
}

// findTopic returns the topic with a name.
func (p *Program) findTopic(name string) (Topic, bool) {
	if i := slices.IndexFunc(p.Topics, func(t Topic) bool { return t.Name == name }); i >= 0 {
		return p.Topics[i], true
	}
	return Topic{}, false
}

// topicsBelow returns the topics whose names consist of `words` and one more word. In the result,
// each topic's name is only that last word.
func (p *Program) topicsBelow(words string) (below []Topic) {
	for _, t := range p.Topics {
		i := strings.LastIndexByte(t.Name, ' ') + 1
		if strings.TrimSuffix(t.Name[:i], " ") == words {
			t.Name = t.Name[i:]
			below = append(below, t)
		}
	}
	return below
}
