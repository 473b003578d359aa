// Package strict decodes the manifest that package cluster writes with the types of
// Kubernetes. It is a module of its own, so that optool does not depend on them.
package strict

import (
	"os"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Every field is one of Kubernetes' and has its type; what matters has the value it should.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile("../kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []batchv1.Job
	for _, doc := range strings.Split(string(text), "\n---\n") {
		var job batchv1.Job
		if err := yaml.UnmarshalStrict([]byte(doc), &job); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if job.APIVersion != "batch/v1" || job.Kind != "Job" {
			t.Errorf("%s %s, want a Job of batch/v1", job.APIVersion, job.Kind)
		}
		jobs = append(jobs, job)
	}
	if len(jobs) != 2 {
		t.Fatalf("%d jobs, want the parts and the report", len(jobs))
	}
	s := jobs[0].Spec
	if *s.CompletionMode != batchv1.IndexedCompletion || *s.Completions != 8 || *s.Parallelism != 4 ||
		*s.BackoffLimitPerIndex != 3 || *s.MaxFailedIndexes != 8 || *s.ActiveDeadlineSeconds != 2*90*60*4 {
		t.Errorf("parts: %+v", s)
	}
	for _, job := range jobs {
		pod := job.Spec.Template.Spec
		c := pod.Containers[0]
		if pod.RestartPolicy != corev1.RestartPolicyNever || len(pod.Containers) != 1 || c.Command != nil ||
			len(c.VolumeMounts) != 2 || len(pod.Volumes) != 2 {
			t.Errorf("%s: pod %+v", job.Name, pod)
		}
		for i, m := range c.VolumeMounts {
			if v := pod.Volumes[i]; v.Name != m.Name || v.PersistentVolumeClaim == nil {
				t.Errorf("%s: mount %+v of volume %+v", job.Name, m, v)
			}
		}
		if got := c.Resources.Limits.Memory().Value(); got != 8<<30 {
			t.Errorf("%s: memory %d", job.Name, got)
		}
	}
	args := jobs[0].Spec.Template.Spec.Containers[0].Args
	want := []string{"replay", "--acc_check", `--where=dtype == "float16"`, "/data/tree", "--op=$$(HOME)", "no", "--run",
		"/data/checked 100%", "--shard", "auto/8", "--resume", "--exit-zero", "--jobs", "4", "--memory", "7730941133"}
	if !slices.Equal(args, want) {
		t.Errorf("arguments %q,\nwant      %q", args, want)
	}
}
