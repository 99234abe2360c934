/*
 * FLCC: convolution, cross-correlation and local correlation coefficients of images in 1D, 2D and 3D.
 *
 * Two interfaces. What begins with flcc_ makes plans by the text of a spec, for all that a spec can say; it answers
 * with a flcc_status. conv_ and lcorr_ are those of FLCC 1.3, for float in 2D and 3D; they answer with a flccResult.
 * docs/c.md has examples of both.
 *
 * Axes stand slowest first everywhere, strides count samples, positions count from 0. Every function may be called from
 * any thread. A plan or matcher that is null, was destroyed or is none at all is an error and not a crash; addresses
 * of samples are taken by the caller's word, so memory that is shorter than the spec says is as fatal as to memcpy.
 *
 * Made by cargo xtask header of the crate flcc-capi; changes belong there. MIT OR Apache-2.0.
 */

#ifndef FLCC_H
#define FLCC_H

#include <stddef.h>
#include <stdint.h>

/**
 * The version of the library that this header is of: its first number.
 */
#define FLCC_VERSION_MAJOR 0

/**
 * The second number. Before 1.0 programs are built anew when it changes.
 */
#define FLCC_VERSION_MINOR 1

/**
 * The third number.
 */
#define FLCC_VERSION_PATCH 0

/**
 * What a function with the prefix `flcc_` answers. The numbers stay as they are; later versions add some at the end.
 */
typedef enum {
    /**
     * Done.
     */
    FLCC_OK = 0,
    /**
     * A pointer is null that must not be.
     */
    FLCC_ERROR_NULL = 1,
    /**
     * A plan or a matcher that this library has not made, or that was destroyed.
     */
    FLCC_ERROR_HANDLE = 2,
    /**
     * A value out of range, a text that does not parse, strides that leave memory, arrays that overlap.
     */
    FLCC_ERROR_INVALID = 3,
    /**
     * An image or a template without samples.
     */
    FLCC_ERROR_EMPTY_INPUT = 4,
    /**
     * Image and template have different numbers of axes, or the number of images is not the spec's.
     */
    FLCC_ERROR_DIMS_MISMATCH = 5,
    /**
     * Mode valid, and the template is longer than the image on an axis.
     */
    FLCC_ERROR_TEMPLATE_LARGER_THAN_IMAGE = 6,
    /**
     * zncc of a template whose samples (where the mask is positive) are all equal.
     */
    FLCC_ERROR_CONSTANT_TEMPLATE = 7,
    /**
     * ncc or nssd of a template that is zero wherever the mask is positive.
     */
    FLCC_ERROR_ZERO_TEMPLATE = 8,
    /**
     * A template to be matched holds NaN or an infinity.
     */
    FLCC_ERROR_NONFINITE_TEMPLATE = 9,
    /**
     * A mask whose shape is not the template's.
     */
    FLCC_ERROR_MASK_SHAPE = 10,
    /**
     * A mask with a weight that is negative or not finite, with none that is positive, or with others than 0 and 1
     * where the spec says `mask01`.
     */
    FLCC_ERROR_MASK_INVALID = 11,
    /**
     * What accuracy `exact` cannot be given for.
     */
    FLCC_ERROR_NOT_EXACT = 12,
    /**
     * The method or the platform that was asked for does not serve the spec here, or there is no GPU.
     */
    FLCC_ERROR_REFUSED = 13,
    /**
     * No plan keeps the memory limit.
     */
    FLCC_ERROR_MEMORY_LIMIT = 14,
    /**
     * There is no memory for it.
     */
    FLCC_ERROR_NO_MEMORY = 15,
    /**
     * A GPU failed.
     */
    FLCC_ERROR_DEVICE = 16,
    /**
     * A file cannot be read or written.
     */
    FLCC_ERROR_FILE = 17,
    /**
     * An error of the library itself.
     */
    FLCC_ERROR_INTERNAL = 18,
} flcc_status;

/**
 * The type of samples.
 */
typedef enum {
    /**
     * `uint8_t`.
     */
    FLCC_U8 = 0,
    /**
     * `uint16_t`.
     */
    FLCC_U16 = 1,
    /**
     * `float`.
     */
    FLCC_F32 = 2,
    /**
     * `double`.
     */
    FLCC_F64 = 3,
} flcc_type;

/**
 * Where a plan may compute.
 */
typedef enum {
    /**
     * On CPUs.
     */
    FLCC_HOST,
    /**
     * On a GPU.
     */
    FLCC_DEVICE,
    /**
     * On what is faster by estimate; where the GPU fails, the CPU takes over.
     */
    FLCC_ANY,
} flccPlatform;

/**
 * What a function of FLCC 1.3 answers.
 */
typedef enum {
    /**
     * Done.
     */
    FLCC_SUCCESS,
    /**
     * A null plan, one that was never made or was destroyed, or one of the other operation.
     */
    FLCC_INVALID_PLAN,
    /**
     * Other than 2 or 3 dimensions.
     */
    FLCC_INVALID_DIMENSION,
    /**
     * A side below 1, or more samples than an image may have or there are addresses for.
     */
    FLCC_INVALID_SIZE,
    /**
     * A type that is none.
     */
    FLCC_INVALID_TYPE,
    /**
     * A platform that is none, or one that is not here.
     */
    FLCC_INVALID_PLATFORM,
    /**
     * A null or unaligned array, arrays that overlap, fewer than 1 image, or a template that no coefficient is defined
     * for: constant, or with NaN or infinities.
     */
    FLCC_INVALID_VALUE,
    /**
     * There is no memory for it.
     */
    FLCC_ALLOC_FAILED,
    /**
     * The computation failed.
     */
    FLCC_EXEC_FAILED,
} flccResult;

/**
 * Whether a plan is for one image a call, or for a stream of images.
 */
typedef enum {
    /**
     * One image a call.
     */
    FLCC_SINGLE,
    /**
     * `imCount` images a call, one behind the other.
     */
    FLCC_STREAM,
} flccType;

/**
 * A plan with templates bound to it. Made by `flcc_matcher_create`; it is a number, as a plan is.
 */
typedef struct flcc_matcher flcc_matcher;

/**
 * How a spec is computed. Made by `flcc_plan_create`; it is a number that the library knows, never an address.
 */
typedef struct flcc_plan flcc_plan;

/**
 * Room on a GPU for runs of a matcher that nothing waits for. Made by `flcc_queue_create`; it is a number, as a plan
 * is.
 */
typedef struct flcc_queue flcc_queue;

/**
 * The lengths of 1 to 3 axes, the slowest axis first: height and width of an image.
 */
typedef struct {
    /**
     * How many axes there are.
     */
    size_t axes;
    /**
     * Their lengths; behind the last, 1.
     */
    size_t lengths[3];
} flcc_shape;

/**
 * What a plan computes, and what it takes.
 */
typedef struct {
    /**
     * Set by the caller: `sizeof(flcc_info)`. Later versions have more fields, and fill as many as there is room for.
     */
    size_t size;
    /**
     * The shape of each image, without channels.
     */
    flcc_shape image;
    /**
     * The shape of each template, without channels.
     */
    flcc_shape templat;
    /**
     * The shape of each result.
     */
    flcc_shape result;
    /**
     * How far the template's first sample lies behind the image's first sample, on each axis, at the first position of
     * the result: 0 in mode valid, `1 - T` in mode full, `-(T / 2)` in same; more with `roi`.
     */
    ptrdiff_t origin[3];
    /**
     * How many images a call has; 0 for any number.
     */
    size_t images;
    /**
     * How many templates.
     */
    size_t templates;
    /**
     * How many channels an image and a template have.
     */
    size_t channels;
    /**
     * Threads of one call.
     */
    size_t threads;
    /**
     * Bytes of scratch of one call, above images, templates and results.
     */
    size_t scratch_bytes;
    /**
     * Bytes of each bound template.
     */
    size_t template_bytes;
    /**
     * The type of the images.
     */
    flcc_type image_type;
    /**
     * The type of the templates.
     */
    flcc_type template_type;
    /**
     * The type of the results: `FLCC_F32` or `FLCC_F64`.
     */
    flcc_type result_type;
    /**
     * Where it computes: `FLCC_HOST` or `FLCC_DEVICE`.
     */
    flccPlatform platform;
} flcc_info;

/**
 * Where samples lie, counted in samples from the address that is passed with it. Strides may be negative.
 *
 * Where a function takes a layout, null stands for row-major samples without gaps, the channels of a pixel side by
 * side, one array behind the other.
 */
typedef struct {
    /**
     * From one position to the next along each axis, the slowest axis first. An image of two axes has two strides:
     * from row to row, from column to column; the third counts for nothing.
     */
    ptrdiff_t strides[3];
    /**
     * From one channel of a position to the next. Results have one channel.
     */
    ptrdiff_t channel;
    /**
     * From the first sample of an array to that of the next, where there are several.
     */
    ptrdiff_t next;
} flcc_layout;

/**
 * A place and its score.
 */
typedef struct {
    /**
     * The score.
     */
    double score;
    /**
     * The position in the result, the slowest axis first; behind the last axis, 0.
     */
    size_t position[3];
    /**
     * The position below a sample, where `subpixel` asked for it; else the same as `position`.
     */
    double refined[3];
} flcc_peak;

/**
 * A place where a template stands turned and scaled, its score, and how it stands there.
 */
typedef struct {
    /**
     * The score.
     */
    double score;
    /**
     * Degrees, counterclockwise as an image is looked at, its rows from top to bottom.
     */
    double angle;
    /**
     * How many times as large as the template it is.
     */
    double scale;
    /**
     * Where the template's middle lies in the image, the slowest axis first, below a sample where `subpixel` asked for
     * it; behind the last axis, 0.
     */
    double middle[3];
    /**
     * The first sample of the box around the turned template; behind the last axis, 0.
     */
    size_t position[3];
    /**
     * The lengths of that box.
     */
    flcc_shape shape;
} flcc_posed_peak;

/**
 * A plan of FLCC 1.3, declared by the caller and filled by `conv_plan` or `lcorr_plan`. What it holds is the
 * library's; it names the plan, so a copy of it names the same one.
 */
typedef struct {
    /**
     * Not for callers.
     */
    uint64_t words[4];
} flccPlan;

/**
 * The lengths of an image or a template; `d` varies fastest in memory, then `w`, then `h`.
 */
typedef struct {
    /**
     * The slowest axis.
     */
    int h;
    /**
     * The next.
     */
    int w;
    /**
     * The fastest axis of three; ignored where there are two.
     */
    int d;
} flccSize;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version, `MAJOR.MINOR.PATCH`. The text is there as long as the library is.
 */
const char *flcc_version(void);

/**
 * A few words for a status. The text is there as long as the library is.
 *
 * # Safety
 * None is asked for: any number is taken.
 */
const char *flcc_status_text(flcc_status status);

/**
 * What was wrong with the last call of this thread that failed: which argument, what was expected, what came.
 *
 * The text is there until the next call of this thread that fails, and is empty where none did. Functions of both
 * interfaces tell it, `flcc_malloc` too.
 */
const char *flcc_last_error(void);

/**
 * Makes a plan: decides how a problem is computed on this machine.
 *
 * `spec` is `OP:TYPE[/TEMPLATETYPE][>OUTTYPE]:[N@]IMAGE*[N@]TEMPLATE:MODE[,OPTION...]`, as in
 * `zncc:u8:0@480x640*32x32:valid`:
 *
 * - OP is `conv`, `corr` (or `cc`), `ncc`, `zncc` (or `lcc`), `ssd`, `nssd` or `sad`;
 * - TYPE is `u8`, `u16`, `f32` or `f64`; OUTTYPE is `f32` or `f64`, without it `f64` if image or template is;
 * - IMAGE and TEMPLATE are 1 to 3 lengths, the slowest axis first; `N@` says how many there are, `0@` any number of
 *   images; an image has at most 2^36 samples;
 * - MODE is `full` (`X + T - 1` results an axis), `same` (`X`) or `valid` (`X - T + 1`);
 * - OPTION is what lies outside of the image (`zero`, which is usual, `constant(C)`, `replicate`, `reflect`, `mirror`
 *   or `wrap`), `mask01` or `maskw`, `roi=ORIGIN:SHAPE` in coordinates of the full result, `acc=fast` or `acc=exact`,
 *   `rank=R`, `pairs` (each image has a template of its own), `channels=C`.
 *
 * `settings` is `NAME=VALUE[,NAME=VALUE...]`, or null for what is usual:
 *
 * - `effort`: `estimate` (usual), `measure` or `patient`, which time what there is on made-up images;
 * - `platform`: `cpu` (usual), `cuda`, or `auto`, which looks for a GPU and takes what is faster by estimate;
 * - `devices`: numbers of GPUs with `:` between them, over which images are spread;
 * - `threads`: a number, 0 (usual) for one a core;
 * - `memory`: bytes that scratch and bound templates may take;
 * - `method`: `auto` (usual), `direct`, `fourier` or `separable`;
 * - `kernel`: the name of a kernel that `flcc_plan_explain` told, to be taken whatever it costs;
 * - `fallback`: `yes` where the CPU is to go on when every GPU has failed.
 *
 * The plan goes to `plan`, or null where there is none. It may be used by several threads at once, and is destroyed by
 * `flcc_plan_destroy`.
 *
 * # Errors
 * `FLCC_ERROR_NULL`; `FLCC_ERROR_INVALID`, `_EMPTY_INPUT`, `_DIMS_MISMATCH`, `_TEMPLATE_LARGER_THAN_IMAGE` and
 * `_NOT_EXACT` for a text that is no spec or no settings; `FLCC_ERROR_REFUSED` where the method or the platform that
 * was asked for does not serve the spec here; `FLCC_ERROR_MEMORY_LIMIT`; `FLCC_ERROR_NO_MEMORY` for a template that no
 * memory holds.
 *
 * # Safety
 * `spec` and `settings` are null or texts that end with a zero, `plan` is null or has room for an address.
 */
flcc_status flcc_plan_create(const char *spec,
                             const char *settings,
                             flcc_plan **plan);

/**
 * Destroys a plan. Matchers that were made of it live on. Null is nothing to destroy, and no error.
 *
 * # Errors
 * `FLCC_ERROR_HANDLE`: it is no plan, or was destroyed before.
 */
flcc_status flcc_plan_destroy(flcc_plan *plan);

/**
 * Tells what a plan computes and takes: set `info->size` to `sizeof(flcc_info)` first.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `FLCC_ERROR_HANDLE`; `FLCC_ERROR_INVALID` for a size that is less than that of the size itself.
 *
 * # Safety
 * `info` is null or the address of `info->size` bytes.
 */
flcc_status flcc_plan_info(const flcc_plan *plan,
                           flcc_info *info);

/**
 * Tells the spec of a plan in its one form. The text goes to `buffer` with a zero behind it, cut short to `room`
 * bytes; its whole length, without the zero, goes to `length`. Both may be null.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `FLCC_ERROR_HANDLE`.
 *
 * # Safety
 * `buffer` is null or has `room` bytes, `length` is null or has room for a number.
 */
flcc_status flcc_plan_spec(const flcc_plan *plan,
                           char *buffer,
                           size_t room,
                           size_t *length);

/**
 * Tells what was considered for a plan and why its kernel was chosen, a line each. The text is returned as by
 * `flcc_plan_spec`.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `FLCC_ERROR_HANDLE`.
 *
 * # Safety
 * As `flcc_plan_spec`.
 */
flcc_status flcc_plan_explain(const flcc_plan *plan,
                              char *buffer,
                              size_t room,
                              size_t *length);

/**
 * Binds templates to a plan: their sums and spectra are computed now, and used for every image. The templates are
 * copied.
 *
 * `templates` are as many as the spec says, of its template type, at `layout` (null: without gaps, one behind the
 * other). `mask` has a weight for each sample of a template, row-major without gaps, of type `mask_type`; null where
 * the spec has no mask. The matcher goes to `matcher`, or null where there is none. It may be used by several threads
 * at once, and is destroyed by `flcc_matcher_destroy`.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `_HANDLE`; `_INVALID` for an address that is not aligned, a layout that leaves memory, a mask
 * that the spec does not have or lacks; `_CONSTANT_TEMPLATE` (zncc), `_ZERO_TEMPLATE` (ncc, nssd),
 * `_NONFINITE_TEMPLATE` (but for conv and corr), `_MASK_INVALID`; `_NO_MEMORY`, `_DEVICE`.
 *
 * # Safety
 * All samples are there, and nothing writes meanwhile what lies between the first and the last of them; `layout` is
 * null or a layout, `matcher` null or room for an address.
 */
flcc_status flcc_matcher_create(const flcc_plan *plan,
                                const void *templates,
                                const flcc_layout *layout,
                                const void *mask,
                                flcc_type mask_type,
                                flcc_matcher **matcher);

/**
 * Destroys a matcher; one that computes on another thread goes when that is done. Null is nothing to destroy.
 *
 * # Errors
 * `FLCC_ERROR_HANDLE`: it is no matcher, or was destroyed before.
 */
flcc_status flcc_matcher_destroy(flcc_matcher *matcher);

/**
 * Tells what `flcc_plan_explain` tells, and what the templates changed in it.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `FLCC_ERROR_HANDLE`.
 *
 * # Safety
 * As `flcc_plan_spec`.
 */
flcc_status flcc_matcher_explain(const flcc_matcher *matcher,
                                 char *buffer,
                                 size_t room,
                                 size_t *length);

/**
 * Computes the results of `count` images with every template, image by image: `count * templates` results.
 *
 * `P` is the part of the image below the template, extended by the boundary rule, `t` the template, `w` the mask's
 * weights (1 without one). All sums go over the template and its channels:
 *
 * - conv: `sum P[k] t[T-1-k]`, the template flipped; corr (cc): `sum w P t`, not flipped;
 * - ncc: `sum w P t / sqrt(sum w P^2 sum w t^2)`, in `[-1, 1]`, 0 where P is zero;
 * - zncc: the same of P and t less their means, in `[-1, 1]`, exactly 0 where P is constant;
 * - ssd: `sum w (P - t)^2`; sad: `sum w |P - t|`;
 * - nssd: `min(1, ssd / sqrt(sum w P^2 sum w t^2))`, 1 where P is zero.
 *
 * At the usual accuracy every ncc, zncc and nssd is within 1e-5 of the exact value (1e-11 for results of f64). NaN and
 * infinities of an image reach exactly the results that touch them.
 *
 * Images are of the spec's type and at `image_layout`, results of its result type and at `result_layout`; null stands
 * for arrays without gaps, one behind the other. `count` is the spec's number of images, or any with `0@`.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `_HANDLE`; `_INVALID` for an address that is not aligned, a layout that leaves memory, results
 * that share samples or lie among each other, and memory that images and results both lie in; `_DIMS_MISMATCH` for a
 * count that is not the spec's; `_NO_MEMORY`, `_DEVICE`. After an error it is open what the results hold.
 *
 * # Safety
 * All samples of images and results are there. While it computes, nothing writes between the first and the last sample
 * of an image, and nobody else uses what lies between the first and the last sample of a result.
 */
flcc_status flcc_execute(const flcc_matcher *matcher,
                         const void *images,
                         const flcc_layout *image_layout,
                         size_t count,
                         void *results,
                         const flcc_layout *result_layout);

/**
 * Computes the results of `count` images, each with a template of its own: image `k` with template `k`, as windows of
 * two frames. The plan is one of a single template, and its kernel serves all pairs; `pairs` in the text of its spec
 * has the planner count the binding of each.
 *
 * Images and results are those of `flcc_execute`, formulas and errors too; `templates` are of the spec's template type
 * at `template_layout`, and may lie in the same frames as other windows. `mask`, of `mask_type`, is the one of all, as
 * that of `flcc_matcher_create`.
 *
 * # Errors
 * As `flcc_execute` and `flcc_matcher_create`; the message counts pairs from 0: `template 17`.
 *
 * # Safety
 * As both.
 */
flcc_status flcc_execute_pairs(const flcc_plan *plan,
                               const void *images,
                               const flcc_layout *image_layout,
                               const void *templates,
                               const flcc_layout *template_layout,
                               const void *mask,
                               flcc_type mask_type,
                               size_t count,
                               void *results,
                               const flcc_layout *result_layout);

/**
 * Computes the results of one image with every template, where image and results lie in the memory of a GPU: one that
 * the matcher's plan computes on (`platform=cuda` among its settings; one of `devices`).
 *
 * `image` and `results` are addresses on the device, as `cudaMalloc` and `cuMemAlloc` give them; `image_layout` is
 * that of `flcc_execute`, results lie one behind the other without gaps. `stream` is a `cudaStream_t` or `CUstream` of
 * that device, null for the default stream: the run comes after all that it holds, and waits for nothing else. When
 * the call returns the results are there, for any stream. The device and its current context stay as they are in the
 * calling thread.
 *
 * # Errors
 * As `flcc_execute`; `FLCC_ERROR_INVALID` for addresses that the driver does not know in the memory of such a device;
 * `_REFUSED` for a plan that computes on the CPU; `_DIMS_MISMATCH` for one of several images; `_DEVICE` for a stream
 * that records a graph, too.
 *
 * # Safety
 * All samples of the image, and room for the results, are there. The stream is one of the device and is not destroyed
 * meanwhile. While it computes, other work than that which the stream held before neither writes the image nor uses
 * the results.
 */
flcc_status flcc_execute_on_device(const flcc_matcher *matcher,
                                   const void *image,
                                   const flcc_layout *image_layout,
                                   void *results,
                                   void *stream);

/**
 * Finds where `count` images hold the templates, without a result of every position: the best places of each template
 * in each image, best first.
 *
 * `peaks` has room for `room` peaks of each template in each image, `count * templates * room` in all, those of image
 * `i` with template `k` from index `(i * templates + k) * room` on; `counts`, `count * templates` numbers, says how
 * many there are of each. With room for none, `peaks` may be null. `options` is `NAME=VALUE[,NAME=VALUE...]`, or null
 * for none:
 *
 * - `threshold`: scores at least this good; not above it where the smallest is best (ssd, nssd, sad);
 * - `distance`: how far from a peak, on every axis, no other may lie; usual is half the template's smallest side;
 * - `border`: how many positions at each end of every axis are left out; usual is 0;
 * - `subpixel`: `quadratic`, `gauss`, `cubic` or `septic`, to refine positions below a sample.
 *
 * Of equal scores the earlier position is the better. NaN is never a peak.
 *
 * # Errors
 * As `flcc_execute`, and `FLCC_ERROR_INVALID` for options that are none.
 *
 * # Safety
 * As `flcc_execute`; `peaks` and `counts` have room as said above.
 */
flcc_status flcc_peaks(const flcc_matcher *matcher,
                       const void *images,
                       const flcc_layout *image_layout,
                       size_t count,
                       const char *options,
                       flcc_peak *peaks,
                       size_t room,
                       size_t *counts);

/**
 * Finds where an image holds a template that may stand turned and scaled: the best places of all angles and scales
 * together, best first, and how the template stands there.
 *
 * `spec` and `settings` are the texts of `flcc_plan_create`: of one image (or `0@`), one template, no `roi`, any
 * mode (full where the template is larger than the image and may stand there smaller) and a measure that does not grow
 * with the template (zncc, ncc, nssd); without `kernel`, since every angle and scale is planned on its own, in each
 * call. `image`, `templat` and `mask` are of the spec's types, at their layouts, as those of `flcc_peaks` and
 * `flcc_matcher_create`.
 *
 * `angles` are `angle_count` degrees, counterclockwise as an image is looked at, its rows from top to bottom; `scales`
 * are `scale_count` factors from 1/64 to 64, 2 for twice as large along every axis. Null with a count of 0 stands for
 * 0 degrees alone, and for 1 alone. Every angle is looked for with every scale, up to 2^20 of both together; those by
 * which the template is larger than the image are left out. Volumes turn plane by plane about their slowest axis,
 * signals are scaled alone.
 *
 * A template that is turned by `a` and scaled by `s` has at `(y, x)` from its middle, `y` downwards, what it has at
 * `((y cos a + x sin a) / s, (x cos a - y sin a) / s)` as it is: by cubic convolution of its samples (Keys, 1981), or
 * under a mask by linear interpolation of those that count; either is widened by `1 / s` where `s` is below 1. What
 * lies beyond its outer samples does not count. By multiples of 90 degrees at scale 1 its samples are the template's
 * own. Scores are those of `flcc_execute` with that template and the mask of what counts, at every place where all of
 * it lies inside the image.
 *
 * `peaks` has room for `room` of them, and `found` says how many there are, 0 after an error. With room for none,
 * `peaks` may be null. `options` is that of `flcc_peaks`, or null; `distance` lies between the middles of templates.
 * It may have two more:
 *
 * - `coarse`: poses are looked for in an image so many times smaller first, and the best are followed to the whole
 *   image: much faster for many. What may be missed is what the smaller image does not show. 8 samples of the
 *   template's smallest side must be left.
 * - `finest`: degrees; how the template stands at each place is then looked for between the angles and scales as well,
 *   in steps halved until those of angles are no larger.
 *
 * # Errors
 * As `flcc_plan_create`, `flcc_matcher_create` and `flcc_peaks`; `FLCC_ERROR_INVALID` for an angle that is not finite,
 * a scale out of range, more than 2^20 of both together, a measure or a setting that is not as said above, an angle
 * but 0 of a signal, a `finest` that is not above 0 or has nothing between, a `coarse` below 2 or too large;
 * `_EMPTY_INPUT` for an address of no angles or scales; `_TEMPLATE_LARGER_THAN_IMAGE` where all are left out;
 * `_DIMS_MISMATCH` for a spec of several images.
 *
 * # Safety
 * As `flcc_plan_create`, `flcc_matcher_create` and `flcc_peaks`; `angles`, `scales` and `peaks` are null or have as
 * many as said, `found` is null or has room for a number.
 */
flcc_status flcc_find_posed(const char *spec,
                            const char *settings,
                            const void *image,
                            const flcc_layout *image_layout,
                            const void *templat,
                            const flcc_layout *template_layout,
                            const void *mask,
                            flcc_type mask_type,
                            const double *angles,
                            size_t angle_count,
                            const double *scales,
                            size_t scale_count,
                            const char *options,
                            flcc_posed_peak *peaks,
                            size_t room,
                            size_t *found);

/**
 * Takes over what another process learnt, from the text that `flcc_wisdom_export` gave. Plans made afterwards use it.
 *
 * # Errors
 * `FLCC_ERROR_NULL`; `FLCC_ERROR_INVALID` for a text that is no wisdom, with its first line that is not. Then nothing
 * is taken over.
 *
 * # Safety
 * `text` is null or a text that ends with a zero.
 */
flcc_status flcc_wisdom_import(const char *text);

/**
 * Tells what this process knows of kernels and their times: what plans of effort measure and patient learnt, and what
 * was imported. The text is returned as by `flcc_plan_spec`.
 *
 * # Errors
 * `FLCC_ERROR_INVALID`: `length` is not aligned.
 *
 * # Safety
 * As `flcc_plan_spec`.
 */
flcc_status flcc_wisdom_export(char *buffer,
                               size_t room,
                               size_t *length);

/**
 * Takes over what a file holds.
 *
 * # Errors
 * As `flcc_wisdom_import`, and `FLCC_ERROR_FILE` for a file that cannot be read.
 *
 * # Safety
 * As `flcc_wisdom_import`.
 */
flcc_status flcc_wisdom_load(const char *path);

/**
 * Adds what this process knows to a file, whole or not at all, one process after another. A file that is not there is
 * made.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `FLCC_ERROR_FILE`; `FLCC_ERROR_INVALID` for a file that holds something else.
 *
 * # Safety
 * As `flcc_wisdom_import`.
 */
flcc_status flcc_wisdom_save(const char *path);

/**
 * Forgets what this process knows.
 */
void flcc_wisdom_forget(void);

/**
 * Room on a GPU of the matcher's plan for runs that go into streams of the caller's: `flcc_enqueue`. It keeps the
 * matcher, and is destroyed by `flcc_queue_destroy`.
 *
 * `device` is the number of the GPU. Where `computes` is 0, runs take the fastest kernels, which do not serve samples
 * that are not finite or of magnitudes beyond what their sums hold; of those `flcc_queue_unserved` tells. Where it is
 * 1, they are computed as all others, by several kernels where one would serve: a few times as slow.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `_HANDLE`; `_INVALID` for a device that is not the plan's, a plan that computes on the CPU, or
 * another number for `computes`; `_DEVICE` for one that is out of memory.
 *
 * # Safety
 * `queue` is null or room for an address.
 */
flcc_status flcc_queue_create(const flcc_matcher *matcher,
                              size_t device,
                              int computes,
                              flcc_queue **queue);

/**
 * Puts the computation of `count` images on the queue's GPU with every template into a stream (a `CUstream` or
 * `cudaStream_t`, null for the default one): the results are at `results`, image by image without gaps, when the
 * stream has done what was put into it until now.
 *
 * Nothing is allocated, nothing is waited for, and all memory is the GPU's or pinned, so the stream may record a
 * graph, which may be launched any number of times. Where one kernel goes from the image to the result it takes all
 * images in one launch. Images lie at equal distances, `image_layout->next` samples, 0 or more; null stands for images
 * without gaps, one behind the other.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `_HANDLE`; `_INVALID` for addresses that the driver does not know in the memory of the queue's
 * GPU, or that are not aligned, memory that images and results both lie in, and images one before the other;
 * `_DIMS_MISMATCH` for no image; `_DEVICE`.
 *
 * # Safety
 * All samples of the images, and room for the results, are there, and stay until the stream has done with them; so
 * does the queue, also for a graph. The stream is one of the queue's GPU. Runs of a queue come one after the other:
 * in one stream, or in streams that wait for each other. Meanwhile nothing else writes images or uses results.
 */
flcc_status flcc_enqueue(flcc_queue *queue,
                         const void *images,
                         const flcc_layout *image_layout,
                         size_t count,
                         void *results,
                         void *stream);

/**
 * Writes to `unserved` whether a run of the queue has met samples that its kernel does not serve, of the runs that are
 * done: 1, or 0. What such a run left in its results is not to be used; `flcc_execute_on_device` computes it. Where
 * `forget` is not 0, what was told is forgotten after that; no run is to be under way then.
 *
 * # Errors
 * `FLCC_ERROR_NULL`, `_HANDLE`.
 *
 * # Safety
 * `unserved` is null or room for a number.
 */
flcc_status flcc_queue_unserved(flcc_queue *queue,
                                int forget,
                                int *unserved);

/**
 * Destroys a queue, when its GPU has done all that it was given; one that another thread is putting a run into goes
 * after that. No stream of the GPU records a graph meanwhile. Null is nothing to destroy.
 *
 * # Errors
 * `FLCC_ERROR_HANDLE`: it is no queue, or was destroyed before.
 */
flcc_status flcc_queue_destroy(flcc_queue *queue);

/**
 * Memory for `bytes` bytes, all zero, aligned to 64 bytes: for the arrays of `conv_exec`, `lcorr_exec` and
 * `flcc_execute`. Null where there is none.
 *
 * Where there is a GPU it is pinned, which makes copies from and to it faster: a GPU then reads and writes it while
 * kernels run. That memory is scarce. Where the system pins no more, it is memory like any other.
 */
void *flcc_malloc(size_t bytes);

/**
 * Gives memory of `flcc_malloc` back. Null is nothing to give back; any other address is left alone, and
 * `flcc_last_error` says so.
 */
void flcc_free(void *array);

/**
 * Plans convolutions: `y[b] = sum P_b[k] t[T-1-k]`, `P_b` the part of the image that begins at `b - (T - 1)`, zero
 * outside. The result has `h + th - 1` rows, `w + tw - 1` columns (and `d + td - 1` layers).
 *
 * `plan` is declared by the caller and needs no value; `dim` is 2 or 3; `imSize` and `temSize` are the lengths of
 * image and template (`d` is ignored where `dim` is 2). `type` says whether a call has one image or a stream of them,
 * `platform` where it may be computed. The plan may be used by several threads at once, for any images and templates
 * of these sizes, until `conv_destroy`. One that is planned again without that stays in memory.
 *
 * # Errors
 * `FLCC_INVALID_PLAN` for a null pointer, `_DIMENSION`, `_SIZE` (a side below 1, or more samples than 2^36 of an image
 * or than there are addresses for), `_TYPE`, `_PLATFORM` (none of the three, or `FLCC_DEVICE` without a GPU),
 * `FLCC_ALLOC_FAILED`, `FLCC_EXEC_FAILED`. After an error the structure names no plan.
 *
 * # Safety
 * `plan` is null or the address of a `flccPlan`.
 */
flccResult conv_plan(flccPlan *plan,
                     int dim,
                     flccSize imSize,
                     flccSize temSize,
                     flccType type,
                     flccPlatform platform);

/**
 * Plans local correlation coefficients: `r[b] = sum (P - mean P)(t - mean t) / sqrt(sum (P - mean P)^2 sum (t - mean
 * t)^2)`, in `[-1, 1]`, each within 1e-5 of the exact value, and exactly 0 where `P` is constant. All else is as for
 * `conv_plan`.
 *
 * # Errors
 * As `conv_plan`.
 *
 * # Safety
 * As `conv_plan`.
 */
flccResult lcorr_plan(flccPlan *plan,
                      int dim,
                      flccSize imSize,
                      flccSize temSize,
                      flccType type,
                      flccPlatform platform);

/**
 * Computes the convolutions of `imCount` images with a template.
 *
 * `image` has the images one behind the other, row-major; `templat` the template; `result` gets a result for each
 * image, one behind the other. With `FLCC_SINGLE` there is one image, and `imCount` is ignored. Memory from
 * `flcc_malloc` is copied to a GPU while it computes; any other is taken too.
 *
 * # Errors
 * `FLCC_INVALID_PLAN` for null, a plan that was destroyed or never made, or one of `lcorr_plan`;
 * `FLCC_INVALID_VALUE` for a null or unaligned array, a result that overlaps image or template, an `imCount` below 1;
 * `FLCC_INVALID_SIZE` for more images than there are addresses for; `FLCC_ALLOC_FAILED`, `FLCC_EXEC_FAILED`.
 *
 * # Safety
 * `plan` is null or the address of a `flccPlan`, the arrays are null or as long as the plan says. Nothing writes image
 * and template meanwhile, and nobody else uses the result.
 */
flccResult conv_exec(flccPlan *plan,
                     float *image,
                     float *templat,
                     float *result,
                     int imCount);

/**
 * Computes the local correlation coefficients of `imCount` images with a template. All else is as for `conv_exec`.
 *
 * # Errors
 * As `conv_exec`, with plans of `lcorr_plan`; `FLCC_INVALID_VALUE` also for a template that is constant or holds NaN
 * or infinities.
 *
 * # Safety
 * As `conv_exec`.
 */
flccResult lcorr_exec(flccPlan *plan,
                      float *image,
                      float *templat,
                      float *result,
                      int imCount);

/**
 * Destroys a plan of `conv_plan`. A call on another thread that uses it ends as it began.
 *
 * # Errors
 * `FLCC_INVALID_PLAN`: null, never made, destroyed before, or made by `lcorr_plan`.
 *
 * # Safety
 * `plan` is null or the address of a `flccPlan`.
 */
flccResult conv_destroy(flccPlan *plan);

/**
 * Destroys a plan of `lcorr_plan`, as `conv_destroy` does.
 *
 * # Errors
 * As `conv_destroy`, of a plan made by `conv_plan`.
 *
 * # Safety
 * As `conv_destroy`.
 */
flccResult lcorr_destroy(flccPlan *plan);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FLCC_H */
