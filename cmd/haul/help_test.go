package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
)

// Bounds of a command's help.
const (
	maxHelpLines      = 60 // without the list of commands
	maxParagraphLines = 6
	maxParagraphs     = 3
	maxCommonFlags    = 16
)

// The help of each command begins with a sentence that says what the command does, and has
// examples. It is short, and refers to further help.
func TestHelp(t *testing.T) {
	for _, cmd := range append(allCommands(newRoot()), newRoot()) {
		words := strings.Fields(cmd.CommandPath())[1:]
		code, help, errs := haul(t, append(words, "--help")...)
		for _, problem := range helpProblems(cmd, help) {
			t.Errorf("%s --help %s", cmd.CommandPath(), problem)
		}
		if code != 0 || errs != "" {
			t.Errorf("%s --help: exit code %d, %s", cmd.CommandPath(), code, errs)
		}
		code, all, errs := haul(t, append(words, "--help-all")...)
		if code != 0 || errs != "" {
			t.Errorf("%s --help-all: exit code %d, %s", cmd.CommandPath(), code, errs)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			shown := " --" + f.Name
			if value, _ := pflag.UnquoteUsage(f); value != "" && f.NoOptDefVal != "" {
				shown += "[=" + value + "]"
			}
			if !strings.Contains(all, shown) {
				t.Errorf("%s --help-all has no %s", cmd.CommandPath(), shown)
			}
		})
		for line := range strings.Lines(cmd.Example) {
			wantParses(t, strings.TrimRight(line, "\n"))
		}
	}
}

// sentenceFirst matches a text whose first line is a sentence, with an empty line below.
var sentenceFirst = regexp.MustCompile(`^[A-Za-z][^\n]{10,98}\.\n\n`)

// moreTopics matches the topics in the last line of a help.
var moreTopics = regexp.MustCompile(`(?m)^More: haul help ([a-z| -]+?)(?:, and .*)?$`)

// helpProblems returns the faults of a command's help.
func helpProblems(cmd *cobra.Command, help string) (problems []string) {
	if !sentenceFirst.MatchString(help) {
		problems = append(problems, "does not begin with a sentence")
	}
	_, rest, _ := strings.Cut(help, "\n")
	if !strings.HasPrefix(rest, "\nUsage:\n  "+cmd.CommandPath()) {
		problems = append(problems, "does not show the usage below the first line")
	}
	if !strings.Contains(help, "\nExamples:\n  "+cmd.CommandPath()) {
		problems = append(problems, "has no example")
	}
	if strings.Count(help, "\n")-len(cmd.Commands()) > maxHelpLines {
		problems = append(problems, "is too long")
	}
	if len(commandline.CommonFlags(cmd)) > maxCommonFlags {
		problems = append(problems, "has too many common flags")
	}
	paragraphs := strings.Split(cmd.Long, "\n\n")[1:]
	if len(paragraphs) > maxParagraphs {
		problems = append(problems, "has too many paragraphs")
	}
	problems = append(problems, longParagraphs(paragraphs)...)
	m := moreTopics.FindStringSubmatch(help)
	if m == nil {
		return problems
	}
	prefix := ""
	for name := range strings.SplitSeq(m[1], " | ") {
		if words := strings.Fields(name); len(words) > 1 {
			prefix = words[0] + " "
		} else {
			name = prefix + name
		}
		if !slices.ContainsFunc(program.Topics, func(t commandline.Topic) bool { return t.Name == name }) {
			problems = append(problems, "names a topic that does not exist: "+name)
		}
	}
	return problems
}

// longParagraphs returns the paragraphs that are too long or too wide.
func longParagraphs(paragraphs []string) (problems []string) {
	for _, p := range paragraphs {
		lines := strings.Split(p, "\n")
		tooWide := false
		for _, l := range lines {
			tooWide = tooWide || len(l) > commandline.Width
		}
		// Tables may be longer than text.
		if text := !strings.Contains(p, "\n  "); tooWide || text && len(lines) > maxParagraphLines {
			problems = append(problems, "has a long paragraph: "+p)
		}
	}
	return problems
}

// Each topic begins with a sentence, is short, and prints all flags of its group. If a command has
// such topics, each of its flags is in one of them.
func TestHelpTopics(t *testing.T) {
	printed := map[string]string{} // command: the topics with its flags
	for _, topic := range program.Topics {
		code, out, errs := haul(t, append([]string{"help"}, strings.Fields(topic.Name)...)...)
		if code != 0 || errs != "" || !strings.HasPrefix(out, topic.Text) {
			t.Errorf("haul help %s: exit code %d, %s", topic.Name, code, errs)
		}
		printed[topic.Of] += out
		if !sentenceFirst.MatchString(topic.Text) {
			t.Errorf("haul help %s does not begin with a sentence", topic.Name)
		}
		for _, problem := range longParagraphs(strings.Split(topic.Text, "\n\n")) {
			t.Errorf("haul help %s %s", topic.Name, problem)
		}
		if topic.Of != "" && strings.Count(out, "\n") > maxHelpLines {
			t.Errorf("haul help %s is too long", topic.Name)
		}
	}
	for _, cmd := range allCommands(newRoot()) {
		text, ok := printed[strings.TrimPrefix(cmd.CommandPath(), "haul ")]
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if ok && f.Name != "help" && f.Name != "help-all" && !strings.Contains(text, " --"+f.Name+" ") && !strings.Contains(text, " --"+f.Name+"[=") {
				t.Errorf("no topic of %s explains --%s", cmd.CommandPath(), f.Name)
			}
		})
	}
}

// Words after "haul help" are completed with commands and topics.
func TestHelpCompletion(t *testing.T) {
	for words, want := range map[string]string{"help": "serve copying sizes", "help serve": "tftp files ops", "help user": "add key"} {
		list, directive := complete(t, append(strings.Fields(words), "")...)
		for w := range strings.FieldsSeq(want) {
			if !strings.Contains(" "+strings.Join(list, " ")+" ", " "+w+" ") || directive != cobra.ShellCompDirectiveNoFileComp {
				t.Errorf("%s is completed by %q, without %s", words, list, w)
			}
		}
	}
}
