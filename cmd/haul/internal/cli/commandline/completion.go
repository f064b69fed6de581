package commandline

import (
	"io"
	"log"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wordsOfFlag is the name of a flag's annotation that lists the words with which the flag's value
// is completed.
const wordsOfFlag = "haul_words"

// CompleteWords sets the words with which the shell completes the value of a flag.
func CompleteWords(cmd *cobra.Command, flag string, words ...cobra.Completion) {
	cobra.CheckErr(cmd.Flags().SetAnnotation(flag, wordsOfFlag, words))
}

// addCompletion adds cobra's command that prints completions, and makes it refuse unknown shells.
func (p *Program) addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.Short = "Print completions for a shell"
		cmd.Long = "Print completions of haul's commands, flags and file names for a shell."
		cmd.Example = "  haul completion bash > /etc/bash_completion.d/haul\n  haul completion fish > ~/.config/fish/completions/haul.fish"
		cmd.Args = p.NoCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range cmd.Commands() {
			shell.Short, shell.Example = "Print completions for "+shell.Name(), completionExamples[shell.Name()]
			shell.Long = shell.Short + "."
			// Cobra's own function would print to the output that was set when cobra created the
			// command, even if another output has been set since.
			shell.RunE = printCompletion
		}
	}
}

// completionExamples shows for each shell how to load completions: permanently, or only in the
// running shell.
var completionExamples = map[string]string{
	"bash":       "  haul completion bash > /etc/bash_completion.d/haul\n  source <(haul completion bash)",
	"fish":       "  haul completion fish > ~/.config/fish/completions/haul.fish\n  haul completion fish | source",
	"powershell": "  haul completion powershell | Out-String | Invoke-Expression",
	"zsh":        "  haul completion zsh > \"${fpath[1]}/_haul\"\n  source <(haul completion zsh)",
}

// printCompletion prints the completions for a shell. The name of cmd is the name of the shell.
func printCompletion(cmd *cobra.Command, _ []string) error {
	root, out := cmd.Root(), cmd.OutOrStdout()
	plain, err := cmd.Flags().GetBool("no-descriptions")
	if err != nil {
		return err
	}
	switch cmd.Name() {
	case "bash":
		return root.GenBashCompletionV2(out, !plain)
	case "fish":
		return root.GenFishCompletion(out, !plain)
	case "zsh":
		if plain {
			return root.GenZshCompletionNoDesc(out)
		}
		return root.GenZshCompletion(out)
	}
	if plain {
		return root.GenPowerShellCompletion(out)
	}
	return root.GenPowerShellCompletionWithDesc(out)
}

// completeFlags sets how the values of all commands' flags are completed: by the words that
// CompleteWords has set for a flag, if there are any. Otherwise a FILE is completed by file names, a
// DIR by directory names, and other values are not completed. It is called only to complete words,
// because cobra keeps registered functions until the process exits.
func completeFlags(of *cobra.Command) {
	of.Flags().VisitAll(func(f *pflag.Flag) {
		if words, ok := f.Annotations[wordsOfFlag]; ok {
			cobra.CheckErr(of.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
			return
		}
		switch value, _ := pflag.UnquoteUsage(f); value {
		case "", "FILE", "KEY": // complete file names, because a KEY may be in a file
		case "DIR":
			cobra.CheckErr(of.MarkFlagDirname(f.Name))
		default:
			cobra.CheckErr(of.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions))
		}
	})
	for _, cmd := range of.Commands() {
		completeFlags(cmd)
	}
}

// plainUsages removes the backquotes from the usage texts of all flags. In help texts they mark the
// name of the value, but completions would show them.
func plainUsages(of *cobra.Command) {
	of.Flags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
	for _, cmd := range of.Commands() {
		plainUsages(cmd)
	}
}

// BeforeRun silences package log, and prepares the commands that complete words for shells. Use it
// as the root's PersistentPreRun.
func BeforeRun(cmd *cobra.Command, _ []string) {
	// http.Transport logs by package log, because it has no logger of its own. It logs about
	// servers, including bytes that they sent, and returns errors for everything that matters.
	// Nothing else in haul uses package log.
	log.SetOutput(io.Discard)
	switch cmd.Name() {
	case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		completeFlags(cmd.Root())
		plainUsages(cmd.Root())
	}
}
