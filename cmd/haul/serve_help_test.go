package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
)

// allCommands returns haul's own commands below a command, at all levels.
func allCommands(of *cobra.Command) (all []*cobra.Command) {
	for _, cmd := range of.Commands() {
		if name := cmd.Name(); name != "help" && cmd.Runnable() {
			all = append(append(all, cmd), allCommands(cmd)...)
		}
	}
	return all
}

// wantParses checks that the flags of an example exist, and that its number of arguments is right.
func wantParses(t *testing.T, line string) {
	t.Helper()
	example, _, _ := strings.Cut(strings.TrimSpace(line), "   ") // the rest is an explanation
	if !strings.HasPrefix(example, "haul ") {
		return // it explains the line above, or a pipe
	}
	example, _, _ = strings.Cut(example, " | ")
	example, _, _ = strings.Cut(example, " > ")
	root := newRoot()
	cmd, rest, err := root.Find(splitShell(example)[1:])
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("example %q: %v", example, err)
	}
	// pflag accepts the value of a flag with an optional value only after "=".
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, arg := range cmd.Flags().Args() {
			if f.NoOptDefVal != "" && strings.Contains(example, "--"+f.Name+" "+arg) && regexp.MustCompile(`^[0-9a-f.:]+$`).MatchString(arg) {
				t.Errorf("example %q: %s is no value of --%s, write an equals sign", example, arg, f.Name)
			}
		}
	})
}

// splitShell splits a command line at spaces outside single quotes.
func splitShell(line string) (words []string) {
	quoted := false
	for _, part := range strings.FieldsFunc(line, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	}) {
		words = append(words, strings.ReplaceAll(part, "'", ""))
	}
	return words
}

// flagWord matches a flag in a text. foreignFlags matches the flags of other programs, which are
// removed first.
var (
	flagWord     = regexp.MustCompile(`(?:^|[^-\w])--([a-z][a-z-]*[a-z])`)
	foreignFlags = regexp.MustCompile(`(?:systemctl|useradd|sysctl|systemd-analyze|systemd-tmpfiles|docker|podman|journalctl|setcap|curl|rclone|go)\b[^\n` + "`" + `]*`)
)

// Every flag named in the documents exists.
func TestDocumentedFlags(t *testing.T) {
	known := map[string]bool{"help": true}
	for _, cmd := range allCommands(newRoot()) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	for _, s := range config.New().All() {
		known[s.LongFlag()] = true
	}
	found := 0
	texts := map[string]string{}
	for _, cmd := range append(allCommands(newRoot()), newRoot()) {
		texts[cmd.CommandPath()+" --help"] = cmd.Long + cmd.Example
	}
	for _, topic := range program.Topics {
		texts["haul help "+topic.Name] = topic.Text
	}
	for _, path := range []string{"README.md", "docs/guide.md", "packaging/README.md", "packaging/systemd/haul.service", "packaging/systemd/haul-sftp.service"} {
		b, err := os.ReadFile(filepath.Join("..", "..", path))
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(b)
	}
	for path, text := range texts {
		for _, m := range flagWord.FindAllStringSubmatch(foreignFlags.ReplaceAllString(text, ""), -1) {
			found++
			if !known[m[1]] {
				t.Errorf("%s names --%s, which no command has", path, m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("found %d flags in the documents; is the search at fault?", found)
	}
}

// The help of --restartable states how long a server may continue after its successor has taken
// over.
func TestServeHelpRetireTime(t *testing.T) {
	if handover.RetireTime != time.Hour || !strings.Contains(serveOpsHelp, "or after an hour") {
		t.Errorf("a server that was succeeded has %v, which the help does not say", handover.RetireTime)
	}
}
