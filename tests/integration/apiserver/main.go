// Command apiserver says, without a cluster, what the Kubernetes API server would say to custom
// resources: it runs the server's own libraries in the order of the server's own handlers, so that
// a test of a CRD meets the real schema, defaulting and CEL code and not a look-alike.
//
//	apiserver CRD.yaml < cases.json > verdicts.json
//
// It exits with 1 if the server would refuse the CRD, with 2 if it was called wrongly or with bad cases.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	strictjson "sigs.k8s.io/json"
)

// scheme knows CRDs as v1 only, the one version that servers still serve.
var scheme = runtime.NewScheme()

// testCase is one request: a create of Object, or its update if Old is there. Both stay raw, because
// the server's decoder must see what the client sent, duplicate keys and all.
type testCase struct {
	Object json.RawMessage `json:"object"`
	Old    json.RawMessage `json:"old"`
}

// finding is one reason to refuse a request, with its message apart so that tests can compare it.
type finding struct {
	Field   string `json:"field"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Full    string `json:"full"`
}

// verdict is the answer to one case. Its lists are never null; both empty means accepted.
type verdict struct {
	Unknown []string  `json:"unknown"`
	Errors  []finding `json:"errors"`
}

// refuse adds an error that the server answers with HTTP 400 and that belongs to no field.
func (v *verdict) refuse(message string) {
	v.Errors = append(v.Errors, finding{Type: "Bad request", Message: message, Full: message})
}

// add takes over validation errors without repetitions, like the server's message, but sorted (by field,
// with which they begin), because the server's order follows Go maps and so changes from run to run.
func (v *verdict) add(errs field.ErrorList) {
	for _, e := range errs {
		v.Errors = append(v.Errors, finding{e.Field, e.Type.String(), e.Detail, e.Error()})
	}
	slices.SortFunc(v.Errors, func(a, b finding) int { return strings.Compare(a.Full, b.Full) })
	v.Errors = slices.Compact(v.Errors)
}

// resource is the storage version of the CRD, compiled once as in customresource_handler.go. The
// strategy is the server's own and does the validation of the objects.
type resource struct {
	kind       schema.GroupVersionKind
	structural *structuralschema.Structural
	strategy   rest.RESTCreateUpdateStrategy
}

// loadCRD reads the CRD as a create request with strict field validation does: strict decoding, v1
// defaults, conversion to the internal type, PrepareForCreate and validation with its CEL cost budget.
func loadCRD(file string) (*resource, []error) {
	data, err := os.ReadFile(file)
	if err := errors.Join(err, apiextensions.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, []error{err}
	}
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		return nil, strict.Errors()
	} else if err != nil {
		return nil, []error{err}
	}
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return nil, []error{fmt.Errorf("%s holds a %T, not a CustomResourceDefinition", file, obj)}
	}
	crd.Status, crd.Generation = apiextensions.CustomResourceDefinitionStatus{}, 1
	version, err := apiextensions.GetCRDStorageVersion(crd)
	if err == nil {
		crd.Status.StoredVersions = []string{version}
	}
	if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd); len(errs) > 0 {
		return nil, errs.ToAggregate().Errors()
	}
	return compile(crd, version)
}

// compile prepares one version of a valid CRD; valid, so its errors are not expected, only passed on.
func compile(crd *apiextensions.CustomResourceDefinition, version string) (*resource, []error) {
	props, err := apiextensions.GetSchemaForVersion(crd, version)
	sub, subErr := apiextensions.GetSubresourcesForVersion(crd, version)
	if err := errors.Join(err, subErr); err != nil {
		return nil, []error{err}
	}
	sub = cmp.Or(sub, &apiextensions.CustomResourceSubresources{})
	structural, err := structuralschema.NewStructural(props.OpenAPIV3Schema)
	validator, _, schemaErr := validation.NewSchemaValidator(props.OpenAPIV3Schema)
	structural = structural.DeepCopy() // its defaults are still those of the CRD
	if err := errors.Join(err, schemaErr, defaulting.PruneDefaults(structural)); err != nil {
		return nil, []error{err}
	}
	kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind}
	namespaced := crd.Spec.Scope == apiextensions.NamespaceScoped
	strategy := customresource.NewStrategy(scheme, namespaced, kind, validator, nil, structural, sub.Status, sub.Scale, nil)
	return &resource{kind, structural, strategy}, nil
}

// decode parses a request body with the server's strict JSON decoder. An error that comes together
// with an object is only about strictness, for example a duplicate key.
func decode(raw []byte) (*unstructured.Unstructured, error) {
	strict := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme, scheme, kjson.SerializerOptions{Strict: true})
	u := &unstructured.Unstructured{}
	_, _, err := strict.Decode(raw, nil, u)
	if err != nil && !runtime.IsStrictDecodingError(err) {
		u = nil
	}
	return u, err
}

// coerce prunes and defaults an object in place, like unstructuredSchemaCoercer.apply and the codec
// around it, and returns the unknown fields. A stored object is read leniently, as from etcd.
func (r *resource) coerce(u *unstructured.Unstructured, stored bool) ([]string, error) {
	kind := u.GroupVersionKind() // kept aside, like metadata, since the schema need not have it
	meta, hasMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object,
		objectmeta.ObjectMetaOptions{DropMalformedFields: stored, ReturnUnknownFieldPaths: !stored})
	if err != nil || kind != r.kind {
		return unknown, err
	}
	pruned := pruning.PruneWithOptions(u.Object, r.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: !stored})
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, r.structural)
	fieldErr, embedded := objectmeta.CoerceWithOptions(nil, u.Object, r.structural, false,
		objectmeta.CoerceOptions{DropInvalidFields: stored, ReturnUnknownFieldPaths: !stored})
	if fieldErr != nil {
		return nil, fieldErr
	}
	u.SetGroupVersionKind(kind)
	if hasMeta {
		err = objectmeta.SetObjectMeta(u.Object, meta)
	}
	defaulting.Default(u.Object, r.structural)
	return slices.Concat(unknown, pruned, embedded), err
}

// judge answers one case. Unlike the server it goes on after unknown fields, so that one case shows
// everything; a panic becomes an error of the case, as the server makes it an HTTP 500.
func (r *resource) judge(c testCase) (v *verdict) {
	v = &verdict{Unknown: []string{}, Errors: []finding{}}
	defer func() {
		if p := recover(); p != nil {
			v.refuse(fmt.Sprintf("panic: %v", p))
		}
	}()
	u, strictErr := decode(c.Object)
	if u == nil {
		v.refuse(strictErr.Error())
		return v
	}
	unknown, err := r.coerce(u, false)
	v.Unknown = append(v.Unknown, unknown...)
	if got, want := u.GetAPIVersion(), r.kind.GroupVersion().String(); err == nil && got != want {
		err = fmt.Errorf("the API version in the data (%s) does not match the expected API version (%s)", got, want)
	}
	old, oldErr := r.stored(c.Old)
	if err := errors.Join(strictErr, err, oldErr); err != nil {
		v.refuse(err.Error())
	} else if old == nil {
		v.add(r.create(u))
	} else {
		v.add(r.update(u, old))
	}
	return v
}

// create prepares and validates a new object like the handler and rest.BeforeCreate.
func (r *resource) create(u *unstructured.Unstructured) field.ErrorList {
	rest.WipeObjectMetaSystemFields(u)
	r.place(u, "default")
	if u.GetName() == "" && u.GetGenerateName() != "" {
		u.SetName(r.strategy.GenerateName(u.GetGenerateName()))
	}
	r.strategy.PrepareForCreate(context.Background(), u)
	return r.strategy.Validate(context.Background(), u)
}

// update prepares and validates a change like rest.BeforeUpdate. It fills in a missing resourceVersion:
// the server demands one, but that says nothing about the CRD and would only burden the cases.
func (r *resource) update(u, old *unstructured.Unstructured) field.ErrorList {
	r.place(u, old.GetNamespace())
	u.SetResourceVersion(cmp.Or(u.GetResourceVersion(), old.GetResourceVersion(), "1"))
	u.SetGeneration(old.GetGeneration())
	r.strategy.PrepareForUpdate(context.Background(), u, old)
	u.SetUID(cmp.Or(u.GetUID(), old.GetUID()))
	u.SetCreationTimestamp(cmp.Or(old.GetCreationTimestamp(), u.GetCreationTimestamp()))
	u.SetDeletionTimestamp(cmp.Or(old.GetDeletionTimestamp(), u.GetDeletionTimestamp()))
	u.SetDeletionGracePeriodSeconds(cmp.Or(u.GetDeletionGracePeriodSeconds(), old.GetDeletionGracePeriodSeconds()))
	meta := field.NewPath("metadata")
	errs := metavalidation.ValidateObjectMetaAccessor(u, r.strategy.NamespaceScoped(), path.ValidatePathSegmentName, meta)
	errs = append(errs, metavalidation.ValidateObjectMetaAccessorUpdate(u, old, meta)...)
	return append(errs, r.strategy.ValidateUpdate(context.Background(), u, old)...)
}

// stored reads the old object as if from etcd, or gives nil if the case has none.
func (r *resource) stored(raw []byte) (*unstructured.Unstructured, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	old, err := decode(raw)
	if old != nil {
		old.SetGroupVersionKind(r.kind)
		_, err = r.coerce(old, true)
	}
	if err != nil {
		return nil, fmt.Errorf("old: %w", err)
	}
	r.place(old, "default")
	return old, nil
}

// place puts an object into the request's namespace unless it names one, or into none if it is cluster-wide.
func (r *resource) place(u *unstructured.Unstructured, request string) {
	u.SetNamespace(rest.ExpectedNamespaceForScope(cmp.Or(u.GetNamespace(), request), r.strategy.NamespaceScoped()))
}

// readCases reads the cases strictly, since a misspelt "old" would silently turn an update into a create.
func readCases(in io.Reader) ([]testCase, error) {
	var cases []testCase
	data, err := io.ReadAll(in)
	strict, jsonErr := strictjson.UnmarshalStrict(data, &cases)
	if err := errors.Join(append(strict, err, jsonErr)...); err != nil {
		return nil, err
	}
	if cases == nil || slices.ContainsFunc(cases, func(c testCase) bool { return c.Object == nil }) {
		return nil, errors.New("want an array in which each case has an object")
	}
	return cases, nil
}

// fail prints each error on a line of its own and ends the program.
func fail(code int, errs ...error) {
	for _, err := range errs {
		fmt.Fprintln(os.Stderr, strings.Join(strings.Fields(err.Error()), " "))
	}
	os.Exit(code)
}

func main() {
	if len(os.Args) != 2 {
		fail(2, errors.New("usage: apiserver CRD.yaml < cases.json > verdicts.json"))
	}
	crd, errs := loadCRD(os.Args[1])
	if len(errs) > 0 {
		fail(1, errs...)
	}
	cases, err := readCases(os.Stdin)
	if err != nil {
		fail(2, fmt.Errorf("cannot read the cases on stdin: %w", err))
	}
	verdicts := make([]*verdict, len(cases))
	for i, c := range cases {
		verdicts[i] = crd.judge(c)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(verdicts); err != nil {
		fail(2, err)
	}
}
