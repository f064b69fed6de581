//go:build linux

package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const monitoringDir = "../packaging/monitoring/"

// A dashboard is the part of Grafana's model that these tests read.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
}

// dashboardExpressions reads the dashboard, whose panels must have distinct numbers and
// positions, and returns its expressions with the variables as Grafana sets them.
func dashboardExpressions(t *testing.T) (exprs []string) {
	t.Helper()
	b, err := os.ReadFile(monitoringDir + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels are number %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := places[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("the panel %s is over %s, or beside the page", p.Title, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			exprs = append(exprs, strings.NewReplacer("$job", "haul", "$instance", ".*", "$__rate_interval", "1m").Replace(target.Expr))
		}
	}
	if len(exprs) < 20 {
		t.Errorf("the dashboard has %d expressions; is the search at fault?", len(exprs))
	}
	return exprs
}

var (
	metricUsed = regexp.MustCompile(`\b((?:haul|process|go)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher    = regexp.MustCompile(`(\w+)(=~|!=|=)"([^"]*)"`)
)

// unexported returns the metrics of an expression, with their labels, that match no line of a
// scrape. Prometheus adds job and instance.
func unexported(expr, scrape string) (missing []string) {
	for _, used := range metricUsed.FindAllStringSubmatch(expr, -1) {
		fits := func(line string) bool {
			rest, ok := strings.CutPrefix(line, used[1])
			if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
				return false
			}
			for _, m := range matcher.FindAllStringSubmatch(used[2], -1) {
				if m[1] == "job" || m[1] == "instance" {
					continue
				}
				value := regexp.MustCompile(`[{,]` + m[1] + `="([^"]*)"`).FindStringSubmatch(rest)
				if value == nil || m[2] != "!=" && !regexp.MustCompile("^(?:"+m[3]+")$").MatchString(value[1]) {
					return false
				}
			}
			return true
		}
		if !slices.ContainsFunc(strings.Split(scrape, "\n"), fits) {
			missing = append(missing, used[0])
		}
	}
	return missing
}

// scrapeAll returns the metrics of a server that has all services, an upstream with a cache,
// hooks and an audit log.
func scrapeAll(t *testing.T) string {
	t.Helper()
	n := newLink(t).server
	n.serve(t, t.TempDir(), "--tftp", host+":6969", "--http", host+":8080")
	p := haul(t)
	p.env = append(p.env, "STATE_DIRECTORY="+t.TempDir()) // for the HTTPS certificate
	d := n.start(t, p, bootArgs(t, "http://"+host+":8080/", "--cache", t.TempDir(), "--cache-size", "64MiB",
		"--tftp", host+":69", "--http", host+":80", "--https", host+":443", "--sftp", host+":2022",
		"--audit", filepath.Join(t.TempDir(), "audit.jsonl"), "--hook", "on=uploaded run=/bin/true",
		"--users", usersFile(t), "--host-keys", t.TempDir(), "--metrics", host+":9100")...)
	d.ready(t, regexp.MustCompile(`msg=confined`)) // the metrics then no longer change what it may read
	client := http.Client{Transport: &http.Transport{DialContext: n.dialer(t)}}
	answer, err := client.Get("http://" + host + ":9100/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Each metric in the dashboard and in the alert rules exists in haul, with the labels that they
// use.
func TestMonitoringMetrics(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(monitoringDir + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	scrape := scrapeAll(t)
	for _, expr := range append(dashboardExpressions(t), string(rules)) {
		for _, missing := range unexported(expr, scrape) {
			t.Errorf("haul has no %s", missing)
		}
	}
	for _, expr := range []string{`rate(haul_bytes{job="haul"}[5m])`, `haul_boot_machines{stage="lost"}`, `haul_refused_total{reason=~"busy|late",why!="x"}`} {
		if len(unexported(expr, scrape)) != 1 {
			t.Errorf("%s passed", expr)
		}
	}
	if t.Failed() {
		t.Log(scrape)
	}
}

// Prometheus accepts the rules, and the expressions of the dashboard. Each alert has a test for
// promtool that detects a change of the rule.
func TestMonitoringRules(t *testing.T) {
	t.Parallel()
	promtool := find(t, "prometheus", "promtool")
	do(t, promtool, "check", "rules", monitoringDir+"alerts.yml")
	do(t, promtool, "test", "rules", monitoringDir+"alerts_test.yml")

	dir := t.TempDir()
	file := filepath.Join(dir, "dashboard.yml")
	text := "groups:\n- name: dashboard\n  rules:\n"
	for i, expr := range dashboardExpressions(t) {
		text += fmt.Sprintf("  - record: dashboard:%d\n    expr: %q\n", i, expr)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	do(t, promtool, "check", "rules", file)

	rules, err := os.ReadFile(monitoringDir + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(monitoringDir + "alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "alerts_test.yml"), tests, 0o644); err != nil {
		t.Fatal(err)
	}
	alerts := strings.Split(string(rules), "      - alert: ")
	for i, alert := range alerts[1:] {
		name, _, _ := strings.Cut(alert, "\n")
		never := regexp.MustCompile(`( == 0| [<>] [0-9.]+)\n`).ReplaceAllString(alert, " > 1e9\n")
		changed := strings.Join(slices.Concat(alerts[:i+1], []string{never}, alerts[i+2:]), "      - alert: ")
		if err := os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := promtool.run(t.Context(), "test", "rules", filepath.Join(dir, "alerts_test.yml")); err == nil || !strings.Contains(out, name) {
			t.Errorf("%s never fires, and no test notices: %v\n%s", name, err, out)
		}
	}
}
