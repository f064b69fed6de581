package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A Finding says that a server broke a rule in its conversation with a persona.
type Finding struct {
	Rule    string  `json:"rule"`
	Verdict Verdict `json:"verdict"` // how bad the broken rule is for this persona
	Saw     string  `json:"saw"`
}

// A Report is the result of one persona.
type Report struct {
	Persona  string        `json:"persona"`
	Sends    string        `json:"sends"`
	Verdict  Verdict       `json:"verdict"`
	Findings []Finding     `json:"findings,omitempty"`
	Notes    []string      `json:"notes,omitempty"` // remarks that are not findings
	Bytes    int64         `json:"bytes"`           // bytes of the file that were fetched
	Whole    bool          `json:"whole"`           // the whole file was fetched
	SHA256   string        `json:"sha256,omitempty"`
	Took     time.Duration `json:"took_ns"`

	skipped bool
}

// A Diagnosis is the result of a run.
type Diagnosis struct {
	Target  string   `json:"target"`
	Server  string   `json:"server"`  // the server's address
	Verdict Verdict  `json:"verdict"` // the worst verdict of all reports, or ok
	Reports []Report `json:"reports"`
	Broken  []Rule   `json:"broken,omitempty"` // each rule that a finding names, once
	Notes   []string `json:"notes,omitempty"`
}

// WriteText writes a diagnosis as text: a line for each persona, and then the observations and the
// advice for each broken rule.
func (d *Diagnosis) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s\n\n", d.Target, d.Server)
	wide := len("client or check")
	for _, r := range d.Reports {
		wide = max(wide, len(r.Persona))
	}
	fmt.Fprintf(&b, "%-*s  %-7s  %9s  %6s  %s\n", wide, "client or check", "verdict", "bytes", "took", "rules broken, or what it sends")
	for _, r := range d.Reports {
		size := "-"
		if r.SHA256 != "" {
			size = fmt.Sprint(r.Bytes)
			if !r.Whole {
				size += "+"
			}
		}
		fmt.Fprintf(&b, "%-*s  %-7s  %9s  %5.2fs  %s\n", wide, r.Persona, r.Verdict, size, r.Took.Seconds(), r.remark())
	}
	for _, rule := range d.Broken {
		fmt.Fprintf(&b, "\n%s (%s)\n", rule.Name, rule.Source)
		for _, r := range d.Reports {
			for _, f := range r.Findings {
				if f.Rule == rule.Name {
					fmt.Fprintf(&b, "  %s %s: %s\n", r.Persona, f.Verdict, f.Saw)
				}
			}
		}
		fmt.Fprintf(&b, "  What to do: %s\n", rule.Advice)
	}
	if notes := d.notes(); len(notes) > 0 {
		fmt.Fprintf(&b, "\nNotes\n  %s\n", strings.Join(notes, "\n  "))
	}
	fmt.Fprintf(&b, "\n%s\n", d.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// remark returns the last column of a persona's line.
func (r *Report) remark() string {
	if len(r.Findings) == 0 {
		return r.Sends
	}
	names := make([]string, len(r.Findings))
	for i, f := range r.Findings {
		names[i] = f.Rule
	}
	return strings.Join(names, ", ")
}

// notes returns the remarks of all reports.
func (d *Diagnosis) notes() []string {
	notes := append([]string(nil), d.Notes...)
	for _, r := range d.Reports {
		for _, n := range r.Notes {
			notes = append(notes, r.Persona+": "+n)
		}
	}
	return notes
}

// summary returns how many reports have each verdict.
func (d *Diagnosis) summary() string {
	var n [len(verdictNames)]int
	for _, r := range d.Reports {
		n[r.Verdict]++
	}
	return fmt.Sprintf("%d ok, %d with warnings, %d fail, %d skipped", n[OK], n[Warning], n[Failed], n[Skipped])
}
